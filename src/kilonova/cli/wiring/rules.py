# SPDX-License-Identifier: Apache-2.0
"""Loads the configured scheduling rules into an engine, and the external scheduler driver, if one is configured.

``available_filters`` and ``weight_classes`` contain dotted paths; a path names a class, or a callable that returns
classes. ``enabled_filters`` contains class names without a path. A built-in rule may also be
given by its path in Nova. A plug-in that is an entry point, or that is defined in ``plugin_path``, may be given by its
name alone.
"""

import inspect
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from kilonova.claims.outside_driver import OutsideDriver
from kilonova.cli.wiring import nova_modules, plug_ins
from kilonova.cli.wiring.dotted_paths import at_path
from kilonova.cli.wiring.plug_ins import PlugIns, clash, class_path
from kilonova.config.settings import Settings
from kilonova.errors import ConfigurationError
from kilonova.records import dataclass
from kilonova.scheduler import filters as filter_package
from kilonova.scheduler.driver import FilterScheduler, Scheduler
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.filters import FILTERS
from kilonova.scheduler.nova_compat.adapters import HostFilterAdapter, HostWeigherAdapter
from kilonova.scheduler.plug_in_rules import PlugInFilter, PlugInRequestFilter, PlugInWeigher
from kilonova.scheduler.request_filters import configured_request_filters
from kilonova.scheduler.rule import Filter, RequestFilter, Weigher
from kilonova.scheduler.settings import SchedulerConfig
from kilonova.scheduler.weighers import WEIGHERS

ALL_FILTERS = "kilonova.scheduler.filters.all_filters"
ALL_WEIGHERS = "kilonova.scheduler.weighers.all_weighers"
_OF_NOVA: Mapping[str, str] = {
    "nova.scheduler.filters.all_filters": ALL_FILTERS,
    "nova.scheduler.weights.all_weighers": ALL_WEIGHERS,
    "nova.scheduler.filter_scheduler.FilterScheduler": class_path(FilterScheduler),
}
_NOVA_PACKAGES = ("nova.scheduler.filters.", "nova.scheduler.weights.")
_BUILT_IN: Mapping[str, type[Any]] = {**FILTERS, **WEIGHERS}
_DEFAULT_DRIVER = "filter_scheduler"

Options = Callable[[type[Any]], Mapping[str, Any]]
"""Function that returns the options in a plug-in's section of the configuration, given the plug-in's class."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The scheduling engine, and the external ``driver`` that decides in its place; None: the engine decides."""

    engine: Engine
    driver: OutsideDriver | None = None


def load_rules(settings: Settings) -> Rules:
    """Return the engine and the driver of a configuration. Plug-ins get the options in their sections.

    Raises: ConfigurationError.
    """
    config = settings.scheduler
    settings.conf.share()
    if config.nova_import_compat:
        nova_modules.install(config.plugin_path)
    named = PlugIns(config.plugin_path, plug_ins.installed())
    engine = build_engine(config, options=settings.conf.options_of, named=named)
    driver = _driver(config, named, settings.conf.options_of)
    return Rules(engine, None if driver is None else _with_deadline(driver, engine, config))


def build_engine(config: SchedulerConfig, *, options: Options = lambda _: {}, named: PlugIns | None = None) -> Engine:
    """Return the engine that ``config`` describes. Raises: ConfigurationError naming every bad path or name.

    ``options``: returns the options of a plug-in; by default each option has its default. ``named``: plug-ins that are
    found by name; by default those in ``plugin_path``.
    """
    named = named or PlugIns(config.plugin_path)
    available = classes_of("available_filters", config.available_filters, plug_ins.FILTERS, named)
    weighers = classes_of("weight_classes", config.weight_classes, plug_ins.WEIGHERS, named)
    named.require_no_clash(plug_ins.FILTERS, {**FILTERS, **available})
    named.require_no_clash(plug_ins.WEIGHERS, {**WEIGHERS, **weighers})
    return Engine(
        request_filters=(*configured_request_filters(config), *_request_filters(config, named, options)),
        filters=tuple(filter_of(cls, config, options) for cls in _enabled(config.enabled_filters, available, named)),
        weighers=tuple(_weigher(cls, config, options) for cls in weighers.values()),
        host_subset_size=config.host_subset_size,
        shuffle=config.shuffle_best_same_weighed_hosts,
        pcpu_fallback=not config.disable_fallback_pcpu_query,
    )


def classes_of(option: str, paths: Iterable[str], kind: plug_ins.Kind, named: PlugIns) -> dict[str, type[Any]]:
    """Return class name → class for all classes that ``paths`` (dotted paths or names) stand for.

    Raises: ConfigurationError.
    """
    classes: dict[str, type[Any]] = {}
    problems: list[str] = []
    for path in filter(None, map(str.strip, paths)):
        try:
            found = _classes_at(path, kind, named)
        except (TypeError, ValueError) as error:
            problems.append(f"{path!r} ({error})")
            continue
        if wrong := [cls for cls in found if not kind.fits(cls)]:
            problems.append(f"{path!r} (is {wrong[0]!r}, which lacks {kind.needs})")
            continue
        for cls in found:
            if classes.setdefault(cls.__name__, cls) is not cls:
                raise clash(cls.__name__, class_path(classes[cls.__name__]), class_path(cls))
    if problems:
        raise ConfigurationError(
            f"{option} must be dotted paths of classes, or of functions that return classes. "
            f"Invalid: {', '.join(problems)}."
        )
    return classes


def _classes_at(path: str, kind: plug_ins.Kind, named: PlugIns) -> list[Any]:
    path = _OF_NOVA.get(path, path)
    name = path.rpartition(".")[2]
    if path.startswith(_NOVA_PACKAGES) and name in _BUILT_IN:
        return [_BUILT_IN[name]]
    if name == path and (plug_in := named.find(kind, name)) is not None:
        return [plug_in]
    target = at_path(path)
    if inspect.isclass(target):
        return [target]
    if not callable(target):
        raise TypeError("the path names neither a class nor a function")
    return [*target(), *_drop_ins()] if path == ALL_FILTERS else list(target())


def _drop_ins() -> list[type[Any]]:
    """Return the filter classes of modules that an operator has put into the package of built-in filters."""
    modules = [
        import_module(f"{filter_package.__name__}.{module.name}")
        for module in pkgutil.iter_modules(filter_package.__path__)
    ]
    return [
        cls
        for module in modules
        for name, cls in inspect.getmembers(module, plug_ins.FILTERS.fits)
        if cls.__module__ == module.__name__ and name not in FILTERS and cls is not filter_package.BaseHostFilter
    ]


def _enabled(names: Iterable[str], available: Mapping[str, type[Any]], named: PlugIns) -> list[type[Any]]:
    """Return the classes of the enabled filters in order; empty names are skipped.

    Raises: ConfigurationError naming unknown filters.
    """
    wanted = list(dict.fromkeys(filter(None, map(str.strip, names))))
    found = {name: available.get(name) or named.find(plug_ins.FILTERS, name) for name in wanted}
    unknown = [name for name, cls in found.items() if cls is None]
    if not unknown:
        return [cls for cls in found.values() if cls is not None]
    hints = []
    for name in unknown:
        if "." in name:
            hints.append(
                f"{name!r} looks like a path: enabled_filters takes class names ({name.rpartition('.')[2]!r}), "
                "available_filters takes paths."
            )
        elif name in FILTERS:
            hints.append(
                f"{name!r} is built in, but available_filters is set without the built-in filters: "
                f"add {ALL_FILTERS} to it."
            )
    raise ConfigurationError(" ".join([f"enabled_filters has unavailable filters: {', '.join(unknown)}.", *hints]))


def filter_of(cls: type[Any], config: SchedulerConfig, options: Options) -> Filter:
    rule: Any = cls.configured(config) if hasattr(cls, "configured") else _made(cls, options)
    if not hasattr(rule, "passes"):
        return HostFilterAdapter(cls.__name__, rule)
    is_whole = all(hasattr(rule, name) for name in ("reason", "run_once", "runs_on_rebuild"))
    fitting: Filter = rule if is_whole else PlugInFilter(cls.__name__, rule)
    return fitting


def _weigher(cls: type[Any], config: SchedulerConfig, options: Options) -> Weigher:
    if hasattr(cls, "configured"):
        configured: Weigher = cls.configured(config)
        return configured
    rule: Any = _made(cls, options)
    if not hasattr(rule, "weigh"):
        return HostWeigherAdapter(cls.__name__, rule)
    is_whole = all(hasattr(rule, name) for name in ("minimum", "maximum", "factors"))
    fitting: Weigher = rule if is_whole else PlugInWeigher(cls.__name__, rule)
    return fitting


def _request_filters(config: SchedulerConfig, named: PlugIns, options: Options) -> list[RequestFilter]:
    classes = classes_of("request_filters", config.request_filters, plug_ins.REQUEST_FILTERS, named)
    return [PlugInRequestFilter(cls.__name__, _made(cls, options)) for cls in classes.values()]


def _driver(config: SchedulerConfig, named: PlugIns, options: Options) -> Scheduler | None:
    """Return the configured external scheduler driver, or None if the engine decides."""
    if config.driver.strip() in {"", _DEFAULT_DRIVER}:
        return None
    try:
        found = _classes_at(config.driver.strip(), plug_ins.DRIVERS, named)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"[scheduler] driver must be {_DEFAULT_DRIVER}, the name of a plug-in or the dotted path of a class. "
            f"{config.driver!r} cannot be loaded ({error})."
        ) from error
    if len(found) != 1 or not plug_ins.DRIVERS.fits(found[0]):
        raise ConfigurationError(
            f"[scheduler] driver: {config.driver!r} is not a scheduler driver. "
            "The class must inherit from kilonova.scheduler.driver.Scheduler and override select_destinations."
        )
    if found[0] is FilterScheduler:
        return None
    driver: Scheduler = _made(found[0], options)
    return driver


def _with_deadline(driver: Scheduler, engine: Engine, config: SchedulerConfig) -> OutsideDriver:
    return OutsideDriver(
        driver,
        engine,
        timeout_s=config.driver_timeout,
        max_attempts=config.max_attempts,
        service_down_time_s=config.service_down_time,
    )


def _made(cls: type[Any], options: Options) -> Any:
    """Instantiate a plug-in with the options of its section. Raises: ConfigurationError."""
    try:
        return cls(**options(cls))
    except ConfigurationError:
        raise
    except Exception as error:  # a plug-in's constructor may raise anything
        raise ConfigurationError(f"{class_path(cls)} cannot be created: {error or type(error).__name__}.") from error
