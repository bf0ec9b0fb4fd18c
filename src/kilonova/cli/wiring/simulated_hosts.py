# SPDX-License-Identifier: Apache-2.0
"""The simulated hosts that the settings ask for, and their agents, each with a hypervisor whose guests live in a file.

Control processes and agent processes alike have them, so nothing here brings what only one of these has.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from kilonova.compute.agent import Agent
from kilonova.compute.concurrency_limits import HostLimits
from kilonova.compute.files.images import HostImages, ImageTransfers
from kilonova.compute.image_cache import ImageCacheManager
from kilonova.compute.power_reports import PowerReporting
from kilonova.compute.removals import RunningDeleted, RunningDeletedAction
from kilonova.compute.shutdowns import ShutdownTimes
from kilonova.compute.virt.base import VirtDriver
from kilonova.compute.virt.fake import FakeDriver
from kilonova.compute.virt.fake.hypervisor import ConsoleAddresses
from kilonova.compute.virt.libvirt.disks.disk_records import bases_in_use
from kilonova.config.compute import ComputeSettings
from kilonova.config.consoles import ConsoleSettings
from kilonova.config.fake import FakeSettings
from kilonova.config.images import ImageCacheSettings
from kilonova.errors import ConfigurationError
from kilonova.messaging.bus import AgentBus
from kilonova.model.console import ConsoleProtocol
from kilonova.scenario.model import AllocationRatios, Scenario, SimulatedHost, default_hosts


def scenario_of(fake: FakeSettings) -> Scenario | None:
    """Return the scenario that shapes the hosts, if there is one. Raises: ConfigurationError."""
    if not fake.scenario:
        return None
    from kilonova.scenario.load import load_scenario  # noqa: PLC0415 - brings numpy

    return load_scenario(fake.scenario)


def hosts_of(fake: FakeSettings, scenario: Scenario | None) -> tuple[SimulatedHost, ...]:
    """Return the hosts of this process. Raises: ConfigurationError for a name that the scenario does not have."""
    if not fake.host_names:
        return scenario.hosts if scenario else default_hosts(fake.hosts, fake.host_prefix)
    if len(set(fake.host_names)) < len(fake.host_names):
        raise ConfigurationError("[fake] host_names names a host twice.")
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
    """Return an agent for each host; none of them is started. Raises: ConfigurationError.

    ``transfers``: how image data comes and goes; None stands for HTTP.
    """
    if not hosts:
        return ()
    folder = folder_of(fake, compute)
    if folder is None:
        raise ConfigurationError("[fake] state_dir must be set when there are simulated hosts.")
    make_folder(folder, "[DEFAULT] instances_path" if fake.state_dir is None else "[fake] state_dir")
    ratios = ratios_of(compute)
    images = host_images(folder, image_cache, transfers) if fake.read_images else None
    addresses = console_addresses(consoles)

    def driver_of(host: SimulatedHost) -> FakeDriver:
        file, lacks = folder / f"{quote(host.name, safe='')}.json", host.missing_abilities
        return FakeDriver(host, file, ratios, images=images, addresses=addresses, lacks=lacks)

    return tuple(agent_for(host.name, driver_of(host), compute, bus, may_act) for host in hosts)


def agent_for(
    host: str, driver: VirtDriver, compute: ComputeSettings, bus: AgentBus, may_act: Callable[[], bool]
) -> Agent:
    """Return the agent of a host, as the settings of its process want it."""
    return Agent(
        host,
        driver,
        bus,
        may_act=may_act,
        running_deleted=running_deleted_of(compute),
        limits=HostLimits(compute.max_concurrent_builds, compute.max_concurrent_live_migrations),
        max_snapshots=compute.max_concurrent_snapshots,
        shutdown_times=ShutdownTimes(compute.shutdown_timeout_s, compute.wait_soft_reboot_s),
        reports_images=compute.report_images,
    )


def folder_of(fake: FakeSettings, compute: ComputeSettings) -> Path | None:
    """Return where the hosts of a process keep their guests, None where nothing says so."""
    return fake.state_dir or compute.instances_path


def make_folder(folder: Path, option: str) -> None:
    """Make a folder that only we may look into; present is success. Raises: ConfigurationError naming the option."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{option}: {error.filename} cannot be made: {error.strerror}.") from error


def console_addresses(settings: ConsoleSettings) -> Mapping[ConsoleProtocol, ConsoleAddresses]:
    """Return where the hosts of a process have the consoles of their guests."""
    return {
        ConsoleProtocol.VNC: ConsoleAddresses(settings.vnc_listen, settings.vnc_reached_at),
        ConsoleProtocol.SERIAL: ConsoleAddresses(settings.serial_reached_at, settings.serial_reached_at),
    }


def host_images(folder: Path, settings: ImageCacheSettings, transfers: ImageTransfers | None = None) -> HostImages:
    """Return the images that all hosts of a process keep, below their own ``folder``."""
    return HostImages(
        folder / settings.subdirectory_name,
        max_bytes=settings.max_size_mib << 20,
        retries=settings.num_retries,
        verify=settings.verify,
        transfers=transfers,
        in_use=lambda: bases_in_use(folder),
    )


def image_cache_of(folders: Sequence[Path], settings: ImageCacheSettings) -> ImageCacheManager:
    """Return who looks after what :func:`host_images` keep below each of the folders."""
    return ImageCacheManager(
        tuple(host_images(folder, settings) for folder in folders),
        settings.manager_interval_s,
        settings.unused_min_age_s,
        settings.remove_unused_resized_minimum_age_s,
    )


def ratios_of(compute: ComputeSettings) -> AllocationRatios:
    """Return what simulated hosts report to Placement beside their size."""
    return AllocationRatios(
        cpu=compute.cpu_allocation_ratio or compute.initial_cpu_allocation_ratio,
        memory=compute.ram_allocation_ratio or compute.initial_ram_allocation_ratio,
        disk=compute.disk_allocation_ratio or compute.initial_disk_allocation_ratio,
        reserved_memory_mib=compute.reserved_host_memory_mib,
    )


def power_reporting_of(compute: ComputeSettings) -> PowerReporting:
    """Return how agents tell in which states their guests are."""
    return PowerReporting(
        compute.sync_power_state_interval_s,
        compute.handle_virt_lifecycle_events,
        compute.resume_guests_state_on_host_boot,
    )


def running_deleted_of(compute: ComputeSettings) -> RunningDeleted:
    """Return what agents do about guests of deleted servers."""
    action = RunningDeletedAction(compute.running_deleted_instance_action)
    return RunningDeleted(action, compute.running_deleted_instance_timeout_s)
