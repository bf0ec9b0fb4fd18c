# SPDX-License-Identifier: Apache-2.0
"""``[DEFAULT] compute_driver``: find the class that serves a hypervisor, and make it."""

import inspect
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

from kilonova.cli.dotted_paths import at_path
from kilonova.compute.virt.base import VirtDriver
from kilonova.compute.virt.host_setup import HostSetup
from kilonova.errors import ConfigurationError

GROUP = "kilonova.compute.drivers"
#: What stands for the simulated hosts of ``[fake]``, as Nova names its own.
SIMULATED = frozenset({"", "fake.FakeDriver", "nova.virt.fake.FakeDriver"})
METHODS = tuple(name for name, member in vars(VirtDriver).items() if callable(member) and not name.startswith("_"))


def driver_class(name: str) -> type[Any]:
    """Return the class with that name or dotted path. Raises: ConfigurationError, naming what it lacks."""
    point = next(iter(entry_points(group=GROUP, name=name)), None)
    try:
        found = at_path(name) if point is None else point.load()
    except Exception as error:  # foreign code, which may do anything when it is imported
        raise ConfigurationError(
            f"[DEFAULT] compute_driver takes fake.FakeDriver, the name of an entry point in {GROUP} or the dotted path"
            f" of a class. It cannot use {name!r} ({error})."
        ) from error
    if not inspect.isclass(found):
        raise ConfigurationError(f"[DEFAULT] compute_driver: {name!r} is no class.")
    if lacking := [method for method in METHODS if not callable(getattr(found, method, None))]:
        raise ConfigurationError(f"[DEFAULT] compute_driver: {name!r} has no {', '.join(lacking)}.")
    return found


def make_driver(cls: type[Any], setup: HostSetup, options: Callable[[type[Any]], Mapping[str, Any]]) -> VirtDriver:
    """Make a driver with its host, and with what its section of the configuration says. Raises: ConfigurationError."""
    try:
        driver: VirtDriver = cls(setup, **options(cls))
    except ConfigurationError:
        raise
    except Exception as error:  # foreign code, which may do anything when it is made
        said = f"{type(error).__name__}: {error}"
        raise ConfigurationError(f"[DEFAULT] compute_driver: {cls.__name__} cannot be made ({said}).") from error
    return driver
