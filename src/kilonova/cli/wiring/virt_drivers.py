# SPDX-License-Identifier: Apache-2.0
"""``[DEFAULT] compute_driver``: loads and instantiates the virt driver.

The package ``libvirt`` is imported only by a process with a libvirt host.
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
#: Values of compute_driver, including Nova's value, for the simulated hosts of ``[fake]``.
SIMULATED = frozenset({"", "fake.FakeDriver", "nova.virt.fake.FakeDriver"})
#: Values of compute_driver, including Nova's value, for a host with libvirt.
LIBVIRT = frozenset({"libvirt.LibvirtDriver", "nova.virt.libvirt.LibvirtDriver"})
_OPTION = "[DEFAULT] compute_driver"
_METHODS = tuple(name for name, member in vars(VirtDriver).items() if callable(member) and not name.startswith("_"))


def make_driver(name: str, setup: HostSetup, options: Callable[[type[Any]], Mapping[str, Any]]) -> VirtDriver:
    """Instantiate an external driver with ``setup`` and the options in its section. Raises: ConfigurationError."""
    cls = driver_class(_OPTION, name, GROUP, ("fake.FakeDriver", "libvirt.LibvirtDriver"), _METHODS)
    driver: VirtDriver = made(_OPTION, cls, setup, **options(cls))
    if missing := missing_methods(driver):
        raise ConfigurationError(
            f"{_OPTION}: {name!r} implements some abilities incompletely: it lacks {', '.join(missing)}."
        )
    return driver


def make_libvirt_driver(setup: HostSetup, settings: LibvirtSettings, consoles: ConsoleSettings) -> VirtDriver:
    """Instantiate the libvirt driver. Raises: ConfigurationError if libvirt-python is not installed."""
    try:
        from kilonova.compute.virt.libvirt.driver import LibvirtDriver  # noqa: PLC0415 - start-up time
    except ImportError as error:
        if error.name not in ("libvirt", "libvirtmod"):
            raise
        raise ConfigurationError(
            f"{_OPTION} = libvirt.LibvirtDriver needs libvirt-python, which tools/hypervisor.sh installs ({error})."
        ) from error
    return LibvirtDriver(setup, settings, consoles)
