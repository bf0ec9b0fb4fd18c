# SPDX-License-Identifier: Apache-2.0
"""Resolves dotted paths and entry points. Agents use this module, so it imports no modules of control processes."""

import inspect
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from kilonova.errors import ConfigurationError


def at_path(path: str) -> Any:
    """Return the object at a dotted path. Raises: ValueError, whose text is the reason."""
    module_path, _, name = path.rpartition(".")
    if not module_path:
        raise ValueError("the name has no module path")
    try:
        return getattr(import_module(module_path), name)
    except Exception as error:  # importing a plug-in may raise anything
        raise ValueError(str(error) or type(error).__name__) from error


def driver_class(option: str, name: str, group: str, built_in: Sequence[str], methods: Iterable[str]) -> type[Any]:
    """Return the class named by a driver's option: an entry point of ``group``, or a dotted path.

    ``built_in``: names of the built-in drivers, for the error message. Raises: ConfigurationError naming missing
    methods.
    """
    point = next(iter(entry_points(group=group, name=name)), None)
    try:
        found = at_path(name) if point is None else point.load()
    except Exception as error:  # importing a plug-in may raise anything
        raise ConfigurationError(
            f"{option} takes {', '.join(built_in)}, the name of an entry point in {group} or the dotted path of a "
            f"class. {name!r} cannot be loaded ({error})."
        ) from error
    if not inspect.isclass(found):
        raise ConfigurationError(f"{option}: {name!r} is not a class.")
    if lacking := [method for method in methods if not callable(getattr(found, method, None))]:
        raise ConfigurationError(f"{option}: {name!r} has no {', '.join(lacking)}.")
    return found


def made(option: str, cls: type[Any], *arguments: Any, **options: Any) -> Any:
    """Instantiate a driver. Raises: ConfigurationError."""
    try:
        return cls(*arguments, **options)
    except ConfigurationError:
        raise
    except Exception as error:  # a driver's constructor may raise anything
        said = f"{type(error).__name__}: {error}"
        raise ConfigurationError(f"{option}: {cls.__name__} cannot be created ({said}).") from error
