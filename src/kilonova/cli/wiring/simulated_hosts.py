# SPDX-License-Identifier: Apache-2.0
"""Builds the configured simulated hosts and their agents. Each simulated hypervisor stores its guests in a file.

Control processes and agent processes both import this module, so it must not import modules that only one of the two
needs.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from kilonova.cli.wiring.agent_settings import agent_for, host_images, make_folder, ratios_of
from kilonova.compute.agent import Agent
from kilonova.compute.files.images import ImageTransfers
from kilonova.compute.virt.fake import FakeDriver
from kilonova.compute.virt.fake.hypervisor import ConsoleAddresses
from kilonova.config.compute import ComputeSettings
from kilonova.config.consoles import ConsoleSettings
from kilonova.config.fake import FakeSettings
from kilonova.config.images import ImageCacheSettings
from kilonova.errors import ConfigurationError
from kilonova.messaging.bus import AgentBus
from kilonova.model.console import ConsoleProtocol
from kilonova.scenario.model import Scenario, SimulatedHost, default_hosts


def scenario_of(fake: FakeSettings) -> Scenario | None:
    """Return the scenario that describes the hosts, or None. Raises: ConfigurationError."""
    if not fake.scenario:
        return None
    from kilonova.scenario.load import load_scenario  # noqa: PLC0415 - brings numpy

    return load_scenario(fake.scenario)


def hosts_of(fake: FakeSettings, scenario: Scenario | None) -> tuple[SimulatedHost, ...]:
    """Return the simulated hosts of this process. Raises: ConfigurationError for a host that the scenario lacks."""
    if not fake.host_names:
        return scenario.hosts if scenario else default_hosts(fake.hosts, fake.host_prefix)
    if len(set(fake.host_names)) < len(fake.host_names):
        raise ConfigurationError("[fake] host_names has a duplicate host name.")
    if scenario is None:
        return tuple(SimulatedHost(name) for name in fake.host_names)
    known = {host.name: host for host in scenario.hosts}
    missing = next((name for name in fake.host_names if name not in known), None)
    if missing is not None:
        raise ConfigurationError(f"[fake] host_names: the scenario has no host {missing!r}.")
    return tuple(known[name] for name in fake.host_names)


def simulate(
    hosts: Sequence[SimulatedHost],
    fake: FakeSettings,
    compute: ComputeSettings,
    image_cache: ImageCacheSettings,
    consoles: ConsoleSettings,
    bus: AgentBus,
    may_act: Callable[[], bool],
    transfers: ImageTransfers | None = None,
) -> tuple[Agent, ...]:
    """Return an agent for each host, without starting it. Raises: ConfigurationError.

    ``transfers``: client for transfers of image data; None: the HTTP client.
    """
    if not hosts:
        return ()
    folder = folder_of(fake, compute)
    if folder is None:
        raise ConfigurationError("[fake] state_dir must be set for simulated hosts.")
    make_folder(folder, "[DEFAULT] instances_path" if fake.state_dir is None else "[fake] state_dir")
    ratios = ratios_of(compute)
    images = host_images(folder, image_cache, transfers) if fake.read_images else None
    addresses = console_addresses(consoles)

    def driver_of(host: SimulatedHost) -> FakeDriver:
        file, lacks = folder / f"{quote(host.name, safe='')}.json", host.missing_abilities
        return FakeDriver(host, file, ratios, images=images, addresses=addresses, lacks=lacks)

    return tuple(agent_for(host.name, driver_of(host), compute, bus, may_act) for host in hosts)


def folder_of(fake: FakeSettings, compute: ComputeSettings) -> Path | None:
    """Return the folder in which simulated hosts keep their guests, or None if none is configured."""
    return fake.state_dir or compute.instances_path


def console_addresses(settings: ConsoleSettings) -> Mapping[ConsoleProtocol, ConsoleAddresses]:
    """Return the addresses of the consoles of simulated hosts, by protocol."""
    return {
        ConsoleProtocol.VNC: ConsoleAddresses(settings.vnc_listen, settings.vnc_reached_at),
        ConsoleProtocol.SERIAL: ConsoleAddresses(settings.serial_listens_at, settings.serial_reached_at),
    }
