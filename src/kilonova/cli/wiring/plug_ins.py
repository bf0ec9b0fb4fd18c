# SPDX-License-Identifier: Apache-2.0
"""Finds plug-ins by dotted path, by the name of an entry point, or in an operator's folder.

Of entry points and dotted paths, only the configured ones are imported. All modules in ``[scheduler] plugin_path`` are
imported.
"""

import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from kilonova.errors import ConfigurationError
from kilonova.records import dataclass
from kilonova.scheduler.driver import Scheduler


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of plug-in. ``fits``: returns whether a class is of this kind; ``needs``: required methods, for errors."""

    group: str
    fits: Callable[[Any], bool]
    needs: str


def _has(*methods: str) -> Callable[[Any], bool]:
    return lambda cls: inspect.isclass(cls) and any(callable(getattr(cls, name, None)) for name in methods)


def _is_driver(cls: Any) -> bool:
    overrides = getattr(cls, "select_destinations", None) is not Scheduler.select_destinations
    return inspect.isclass(cls) and issubclass(cls, Scheduler) and overrides


FILTERS = Kind("kilonova.scheduler.filters", _has("passes", "host_passes"), "passes or host_passes")
WEIGHERS = Kind("kilonova.scheduler.weighers", _has("weigh", "_weigh_object"), "weigh or _weigh_object")
REQUEST_FILTERS = Kind("kilonova.scheduler.request_filters", _has("apply"), "apply")
DRIVERS = Kind("kilonova.scheduler.drivers", _is_driver, "select_destinations, and kilonova.scheduler.driver.Scheduler")
KINDS = (FILTERS, WEIGHERS, REQUEST_FILTERS, DRIVERS)


def installed() -> tuple[EntryPoint, ...]:
    """Return the entry points of every kind, of all installed packages."""
    return _installed_along(tuple(sys.path))


@cache
def _installed_along(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Read the metadata of all packages on the path. Cached, because it takes 50 ms."""
    del path
    everything = entry_points()
    return tuple(point for kind in KINDS for point in everything.select(group=kind.group))


class PlugIns:
    """Plug-ins that are found by name: classes of the modules in ``folders``, and the entry points ``points``.

    Raises: ConfigurationError for an unusable folder or module, and for a duplicate name.
    """

    def __init__(self, folders: Iterable[str] = (), points: Iterable[EntryPoint] = ()) -> None:
        self._classes: dict[Kind, dict[str, type[Any]]] = {kind: {} for kind in KINDS}
        self._points: dict[Kind, dict[str, EntryPoint]] = {kind: {} for kind in KINDS}
        for module in _modules(folders):
            for kind in KINDS:
                self._take_in(kind, module)
        kinds = {kind.group: kind for kind in KINDS}
        for point in points:
            self._announce(kinds[point.group], point)

    def find(self, kind: Kind, name: str) -> type[Any] | None:
        """Return the class of the plug-in ``name``, or None if it is unknown.

        Raises: ConfigurationError if it is unusable.
        """
        if name in self._classes[kind]:
            return self._classes[kind][name]
        point = self._points[kind].get(name)
        if point is None:
            return None
        try:
            found = point.load()
        except Exception as error:  # importing a plug-in may raise anything
            raise ConfigurationError(f"Entry point {name!r} of {kind.group} cannot be loaded: {error}.") from error
        if not kind.fits(found):
            raise ConfigurationError(f"Entry point {name!r} of {kind.group} is {found!r}, which lacks {kind.needs}.")
        cls: type[Any] = found
        return cls

    def require_no_clash(self, kind: Kind, others: Mapping[str, type[Any]]) -> None:
        """Raise ConfigurationError if one of these plug-ins has the name of a different class in ``others``."""
        for name in sorted({*self._classes[kind], *self._points[kind]} & others.keys()):
            mine = self.find(kind, name)
            if mine is not others[name] and _source(mine) != _source(others[name]):
                raise clash(name, class_path(others[name]), self._place_of(kind, name))

    def _take_in(self, kind: Kind, module: ModuleType) -> None:
        for name, cls in inspect.getmembers(module, kind.fits):
            if cls.__module__ != module.__name__:
                continue
            if name in self._classes[kind]:
                raise clash(name, self._place_of(kind, name), class_path(cls))
            self._classes[kind][name] = cls

    def _announce(self, kind: Kind, point: EntryPoint) -> None:
        known = self._points[kind].get(point.name)
        if point.name in self._classes[kind] or (known is not None and known.value != point.value):
            raise clash(point.name, self._place_of(kind, point.name), f"entry point {point.value}")
        self._points[kind][point.name] = point

    def _place_of(self, kind: Kind, name: str) -> str:
        if name in self._classes[kind]:
            return class_path(self._classes[kind][name])
        return f"entry point {self._points[kind][name].value}"


def _source(cls: type[Any] | None) -> tuple[str | None, str] | type[Any] | None:
    """Return (file, name) of a class: the same result for both copies of a class that was imported twice."""
    file = None if cls is None else getattr(sys.modules.get(cls.__module__), "__file__", None)
    return cls if cls is None or file is None else (file, cls.__qualname__)


def clash(name: str, one: str, other: str) -> ConfigurationError:
    """Return the error for two plug-ins of the same name."""
    return ConfigurationError(
        f"Two rules have the name {name!r}: {one} and {other}. Rename one of the rules, or configure only one."
    )


def class_path(cls: type[Any]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _modules(folders: Iterable[str]) -> Iterator[ModuleType]:
    """Import every module of the folders by its bare name."""
    for folder in filter(None, map(str.strip, folders)):
        place = Path(folder).absolute()
        if not place.is_dir():
            raise ConfigurationError(f"[scheduler] plugin_path: folder {folder} does not exist.")
        if str(place) not in sys.path:
            sys.path.append(str(place))  # the last entry, so that installed modules take precedence
        for found in pkgutil.iter_modules([str(place)]):
            yield _module(place, found.name)


def _module(place: Path, name: str) -> ModuleType:
    try:
        module = import_module(name)
    except Exception as error:  # importing a plug-in may raise anything
        what = f"{type(error).__name__}: {error}"
        raise ConfigurationError(f"[scheduler] plugin_path: {place / name} cannot be imported: {what}.") from error
    file = Path(module.__file__ or "")
    if place not in {file.parent, file.parent.parent}:
        raise ConfigurationError(
            f"[scheduler] plugin_path: {place / name} cannot be imported, because {file} has the same module name."
            " Rename it."
        )
    return module
