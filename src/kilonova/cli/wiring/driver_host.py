# SPDX-License-Identifier: Apache-2.0
"""Driver and agent of the host of ``[DEFAULT] compute_driver``. A process has at most one such host.

Control processes can have such a host only with ``[DEFAULT] control_serves_host``; agent processes need no option.
"""

import socket
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kilonova.cli.wiring import virt_drivers
from kilonova.cli.wiring.agent_settings import agent_for, host_images, make_folder, ratios_of
from kilonova.compute.agent import Agent
from kilonova.compute.files.folders import claim
from kilonova.compute.files.images import ImageTransfers
from kilonova.compute.virt.base import VirtDriver
from kilonova.compute.virt.host_setup import HostSetup
from kilonova.config.compute import ComputeSettings
from kilonova.config.consoles import ConsoleSettings
from kilonova.config.host_resources import HostResourceSettings
from kilonova.config.images import ImageCacheSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import ConfigurationError
from kilonova.messaging.bus import AgentBus

#: Function that returns the options in the section of an external driver, given the driver's class.
OptionsOf = Callable[[type[Any]], Mapping[str, Any]]


class HostSettings(Protocol):
    """Settings that the host of a process needs."""

    @property
    def compute(self) -> ComputeSettings: ...
    @property
    def image_cache(self) -> ImageCacheSettings: ...
    @property
    def consoles(self) -> ConsoleSettings: ...
    @property
    def host_resources(self) -> HostResourceSettings: ...
    @property
    def libvirt(self) -> LibvirtSettings: ...


def is_simulated(compute: ComputeSettings) -> bool:
    """Return whether the hosts of an agent process are simulated."""
    return compute.compute_driver.strip() in virt_drivers.SIMULATED


def agent_of_driver(
    settings: HostSettings,
    options_of: OptionsOf,
    bus: AgentBus,
    may_act: Callable[[], bool],
    transfers: ImageTransfers | None = None,
) -> Agent:
    """Return the agent of the driver's host, without starting it. Raises: ConfigurationError."""
    compute = settings.compute
    folder = compute.instances_path
    if folder is None:
        raise ConfigurationError("[DEFAULT] instances_path must be set for a host that is not simulated.")
    make_folder(folder, "[DEFAULT] instances_path")
    name = compute.host or socket.gethostname()
    claim(folder, name)
    images = host_images(folder, settings.image_cache, transfers)
    setup = HostSetup(name, folder, images, ratios_of(compute), settings.host_resources)
    return agent_for(name, _driver(settings, options_of, setup), compute, bus, may_act)


def _driver(settings: HostSettings, options_of: OptionsOf, setup: HostSetup) -> VirtDriver:
    name = settings.compute.compute_driver.strip()
    if name in virt_drivers.LIBVIRT:
        return virt_drivers.make_libvirt_driver(setup, settings.libvirt, settings.consoles)
    return virt_drivers.make_driver(name, setup, options_of)
