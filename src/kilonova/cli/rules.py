# SPDX-License-Identifier: Apache-2.0
"""Load the configured scheduling rules and build an engine of them.

``available_filters`` and ``weight_classes`` hold dotted paths, each of a class or of a callable that returns classes;
``enabled_filters`` holds bare class names. Built-in rules also answer to the paths they have in Nova.
"""

import inspect
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from kilonova.errors import ConfigurationError
from kilonova.scheduler import filters as filter_package
from kilonova.scheduler.engine import Engine
from kilonova.scheduler.filters import FILTERS
from kilonova.scheduler.nova_compat import HostFilterAdapter, HostWeigherAdapter
from kilonova.scheduler.request_filters import configured_request_filters
from kilonova.scheduler.rule import Filter, Weigher
from kilonova.scheduler.settings import SchedulerConfig
from kilonova.scheduler.weighers import WEIGHERS

ALL_FILTERS = "kilonova.scheduler.filters.all_filters"
ALL_WEIGHERS = "kilonova.scheduler.weighers.all_weighers"
_OF_NOVA: Mapping[str, str] = {
    "nova.scheduler.filters.all_filters": ALL_FILTERS,
    "nova.scheduler.weights.all_weighers": ALL_WEIGHERS,
}
_NOVA_PACKAGES = ("nova.scheduler.filters.", "nova.scheduler.weights.")
_BUILT_IN: Mapping[str, type[Any]] = {**FILTERS, **WEIGHERS}


def build_engine(config: SchedulerConfig) -> Engine:
    """Return the engine that ``config`` describes. Raises: ConfigurationError, naming every bad path or name."""
    available = _load("available_filters", config.available_filters, _is_filter)
    weighers = _load("weight_classes", config.weight_classes, _is_weigher)
    return Engine(
        request_filters=configured_request_filters(config),
        filters=tuple(_filter(available[name], config) for name in _enabled(config.enabled_filters, available)),
        weighers=tuple(_weigher(cls, config) for cls in weighers.values()),
        host_subset_size=config.host_subset_size,
        shuffle=config.shuffle_best_same_weighed_hosts,
    )


def _load(option: str, paths: Iterable[str], is_rule: Callable[[Any], bool]) -> dict[str, type[Any]]:
    """Return class name → class of everything the paths lead to; of two classes of one name the later counts."""
    classes: dict[str, type[Any]] = {}
    problems: list[str] = []
    for path in filter(None, map(str.strip, paths)):
        try:
            found = _classes_at(path)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            problems.append(f"{path!r} ({error})")
            continue
        if wrong := [cls for cls in found if not is_rule(cls)]:
            problems.append(f"{path!r} (gives {wrong[0]!r}, which is no such rule)")
        classes.update({cls.__name__: cls for cls in found if cls not in wrong})
    if problems:
        raise ConfigurationError(
            f"{option} takes dotted paths of classes, or of functions that return classes. "
            f"It cannot use: {', '.join(problems)}."
        )
    return classes


def _classes_at(path: str) -> list[Any]:
    path = _OF_NOVA.get(path, path)
    module_path, _, name = path.rpartition(".")
    if path.startswith(_NOVA_PACKAGES) and name in _BUILT_IN:
        return [_BUILT_IN[name]]
    if not module_path:
        raise ValueError("a bare name, no path")
    target = getattr(import_module(module_path), name)
    if inspect.isclass(target):
        return [target]
    if not callable(target):
        raise TypeError("neither a class nor a function")
    return [*target(), *_drop_ins()] if path == ALL_FILTERS else list(target())


def _drop_ins() -> list[type[Any]]:
    """Return filter classes from modules that were placed among the built-in ones."""
    modules = [
        import_module(f"{filter_package.__name__}.{module.name}")
        for module in pkgutil.iter_modules(filter_package.__path__)
    ]
    return [
        cls
        for module in modules
        for name, cls in inspect.getmembers(module, _is_filter)
        if cls.__module__ == module.__name__ and name not in FILTERS and cls is not filter_package.BaseHostFilter
    ]


def _enabled(names: Iterable[str], available: Mapping[str, type[Any]]) -> list[str]:
    """Return the enabled names in order, empty items left out. Raises: ConfigurationError, naming all unknown ones."""
    wanted = list(dict.fromkeys(filter(None, map(str.strip, names))))
    unknown = [name for name in wanted if name not in available]
    if not unknown:
        return wanted
    hints = []
    for name in unknown:
        if "." in name:
            hints.append(
                f"{name!r} looks like a path: enabled_filters takes class names ({name.rpartition('.')[2]!r}), "
                "available_filters takes paths."
            )
        elif name in FILTERS:
            hints.append(
                f"{name!r} is built in, but setting available_filters replaces its default: add {ALL_FILTERS} to it."
            )
    raise ConfigurationError(
        " ".join([f"enabled_filters names filters that are not available: {', '.join(unknown)}.", *hints])
    )


def _is_filter(cls: Any) -> bool:
    return inspect.isclass(cls) and any(callable(getattr(cls, name, None)) for name in ("passes", "host_passes"))


def _is_weigher(cls: Any) -> bool:
    return inspect.isclass(cls) and any(callable(getattr(cls, name, None)) for name in ("weigh", "_weigh_object"))


def _filter(cls: type[Any], config: SchedulerConfig) -> Filter:
    rule: Any = cls.configured(config) if hasattr(cls, "configured") else cls()
    fitting: Filter = rule if hasattr(rule, "passes") else HostFilterAdapter(cls.__name__, rule)
    return fitting


def _weigher(cls: type[Any], config: SchedulerConfig) -> Weigher:
    rule: Any = cls.configured(config) if hasattr(cls, "configured") else cls()
    fitting: Weigher = rule if hasattr(rule, "weigh") else HostWeigherAdapter(cls.__name__, rule)
    return fitting
