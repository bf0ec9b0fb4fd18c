# SPDX-License-Identifier: Apache-2.0
"""``[DEFAULT] compute_driver``: find the class that serves a hypervisor, and make it.

``libvirt`` itself is imported only where a host has it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kilonova.cli.wiring.dotted_paths import driver_class, made
from kilonova.compute.virt.abilities import missing_methods
from kilonova.compute.virt.base import VirtDriver
from kilonova.compute.virt.host_setup import HostSetup
from kilonova.config.consoles import ConsoleSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import ConfigurationError

GROUP = "kilonova.compute.drivers"
#: What stands for the simulated hosts of ``[fake]``, as Nova names its own.
SIMULATED = frozenset({"", "fake.FakeDriver", "nova.virt.fake.FakeDriver"})
#: What stands for real guests by libvirt, as Nova names its own.
LIBVIRT = frozenset({"libvirt.LibvirtDriver", "nova.virt.libvirt.LibvirtDriver"})
_OPTION = "[DEFAULT] compute_driver"
_METHODS = tuple(name for name, member in vars(VirtDriver).items() if callable(member) and not name.startswith("_"))


def make_driver(name: str, setup: HostSetup, options: Callable[[type[Any]], Mapping[str, Any]]) -> VirtDriver:
    """Make a driver with its host, and with what its section of the configuration says. Raises: ConfigurationError."""
    cls = driver_class(_OPTION, name, GROUP, ("fake.FakeDriver", "libvirt.LibvirtDriver"), _METHODS)
    driver: VirtDriver = made(_OPTION, cls, setup, **options(cls))
    if missing := missing_methods(driver):
        raise ConfigurationError(f"{_OPTION}: {name!r} has only a part of some abilities: no {', '.join(missing)}.")
    return driver


def make_libvirt_driver(setup: HostSetup, settings: LibvirtSettings, consoles: ConsoleSettings) -> VirtDriver:
    """Make the driver of real guests. Raises: ConfigurationError where libvirt-python is not installed."""
    try:
        from kilonova.compute.virt.libvirt.driver import LibvirtDriver  # noqa: PLC0415 - start-up time
    except ImportError as error:
        if error.name not in ("libvirt", "libvirtmod"):
            raise
        raise ConfigurationError(
            f"{_OPTION} = libvirt.LibvirtDriver needs libvirt-python, which tools/hypervisor.sh installs ({error})."
        ) from error
    return LibvirtDriver(setup, settings, consoles)
