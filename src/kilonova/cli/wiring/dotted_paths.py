# SPDX-License-Identifier: Apache-2.0
"""What dotted paths and entry points lead to. Agents use it, too, so it brings nothing."""

import inspect
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from kilonova.errors import ConfigurationError


def at_path(path: str) -> Any:
    """Return what a dotted path leads to. Raises: ValueError, with a reason that fits into a line."""
    module_path, _, name = path.rpartition(".")
    if not module_path:
        raise ValueError("a bare name, no path")
    try:
        return getattr(import_module(module_path), name)
    except Exception as error:  # foreign code, which may do anything when it is imported
        raise ValueError(str(error) or type(error).__name__) from error


def driver_class(option: str, name: str, group: str, built_in: Sequence[str], methods: Iterable[str]) -> type[Any]:
    """Return the class that a driver's option names: an entry point of ``group``, or a dotted path.

    ``built_in``: what else the option takes, for the message. Raises: ConfigurationError, naming what the class lacks.
    """
    point = next(iter(entry_points(group=group, name=name)), None)
    try:
        found = at_path(name) if point is None else point.load()
    except Exception as error:  # foreign code, which may do anything when it is imported
        raise ConfigurationError(
            f"{option} takes {', '.join(built_in)}, the name of an entry point in {group} or the dotted path of a "
            f"class. It cannot use {name!r} ({error})."
        ) from error
    if not inspect.isclass(found):
        raise ConfigurationError(f"{option}: {name!r} is no class.")
    if lacking := [method for method in methods if not callable(getattr(found, method, None))]:
        raise ConfigurationError(f"{option}: {name!r} has no {', '.join(lacking)}.")
    return found


def made(option: str, cls: type[Any], *arguments: Any, **options: Any) -> Any:
    """Make a driver. Raises: ConfigurationError."""
    try:
        return cls(*arguments, **options)
    except ConfigurationError:
        raise
    except Exception as error:  # foreign code, which may do anything when it is made
        said = f"{type(error).__name__}: {error}"
        raise ConfigurationError(f"{option}: {cls.__name__} cannot be made ({said}).") from error
