# SPDX-License-Identifier: Apache-2.0
"""Loads packages that services import at their start, but seldom use, when an attribute of one is used.

Keystone imports pysaml2, and Glance imports openstacksdk and libraries for signatures of images. Few clouds of
``kilonova up`` use them, and loading them takes a quarter of the start.

A module must not be deferred if a module of its own imports names from it while it is loaded. importlib's LazyLoader
does not help: it loads a package as soon as one of the package's modules is imported.
"""

import sys
import threading
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

# one lock for all modules, because a module that is being loaded uses others
_lock = threading.RLock()
_loaders: dict["_DeferredModule", Loader] = {}


def defer(packages: Sequence[str]) -> None:
    """Defer the loading of packages and their modules. Call it before they are imported."""
    sys.meta_path.insert(0, _Finder(packages))


def make_unavailable(package: str) -> None:
    """Make imports of a package fail as if it was not installed. Does nothing if it has been imported already."""
    sys.modules.setdefault(package, None)  # type: ignore[arg-type]  # the documented way


class _Finder(MetaPathFinder):
    def __init__(self, packages: Sequence[str]) -> None:
        self._packages = frozenset(packages)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in self._packages:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _DeferredModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        assert isinstance(module, _DeferredModule)
        assert module.__spec__ is not None
        # readers of data files of a package ask its module for this loader
        module.__spec__.loader = module.__loader__ = self._loader
        _loaders[module] = self._loader


class _DeferredModule(ModuleType):
    """A module that is loaded when an attribute is missing."""

    def __getattr__(self, name: str) -> Any:
        # the import system asks for special attributes and for modules of a package; for neither it has to be loaded
        if not name.startswith("__") and not self._has_module(name):
            with _lock:
                self._load()
                if name in self.__dict__:
                    return self.__dict__[name]
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def _has_module(self, name: str) -> bool:
        places = self.__dict__.get("__path__")
        return places is not None and PathFinder.find_spec(f"{self.__name__}.{name}", places) is not None

    def _load(self) -> None:
        if (loader := _loaders.pop(self, None)) is not None:
            try:
                loader.exec_module(self)
            except BaseException:
                _loaders[self] = loader  # the next use fails with the same error
                raise
