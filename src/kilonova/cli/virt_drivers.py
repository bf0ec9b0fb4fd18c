# SPDX-License-Identifier: Apache-2.0
"""``[DEFAULT] compute_driver``: find the class that serves a hypervisor, and make it."""

from collections.abc import Callable, Mapping
from typing import Any

from kilonova.cli.dotted_paths import driver_class, made
from kilonova.compute.virt.base import VirtDriver
from kilonova.compute.virt.host_setup import HostSetup

GROUP = "kilonova.compute.drivers"
#: What stands for the simulated hosts of ``[fake]``, as Nova names its own.
SIMULATED = frozenset({"", "fake.FakeDriver", "nova.virt.fake.FakeDriver"})
_OPTION = "[DEFAULT] compute_driver"
_METHODS = tuple(name for name, member in vars(VirtDriver).items() if callable(member) and not name.startswith("_"))


def make_driver(name: str, setup: HostSetup, options: Callable[[type[Any]], Mapping[str, Any]]) -> VirtDriver:
    """Make a driver with its host, and with what its section of the configuration says. Raises: ConfigurationError."""
    cls = driver_class(_OPTION, name, GROUP, ("fake.FakeDriver",), _METHODS)
    driver: VirtDriver = made(_OPTION, cls, setup, **options(cls))
    return driver
