# SPDX-License-Identifier: Apache-2.0
"""Builds agents, with their limits, allocation ratios, image caches and reports, from the settings of a process."""

from collections.abc import Callable, Sequence
from pathlib import Path

from kilonova.compute.agent import Agent
from kilonova.compute.concurrency_limits import HostLimits
from kilonova.compute.files.images import HostImages, ImageTransfers
from kilonova.compute.image_cache import ImageCacheManager
from kilonova.compute.power_reports import PowerReporting
from kilonova.compute.removals import RunningDeleted, RunningDeletedAction
from kilonova.compute.shutdowns import ShutdownTimes
from kilonova.compute.virt.base import VirtDriver
from kilonova.compute.virt.libvirt.disks.disk_records import bases_in_use
from kilonova.config.compute import ComputeSettings
from kilonova.config.images import ImageCacheSettings
from kilonova.errors import ConfigurationError
from kilonova.messaging.bus import AgentBus
from kilonova.model.allocation_ratios import AllocationRatios


def agent_for(
    host: str, driver: VirtDriver, compute: ComputeSettings, bus: AgentBus, may_act: Callable[[], bool]
) -> Agent:
    """Return the agent of a host, configured from the settings of its process."""
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


def make_folder(folder: Path, option: str) -> None:
    """Create a folder with mode 0700, if it does not exist. Raises: ConfigurationError naming the option."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{option}: {error.filename} cannot be created: {error.strerror}.") from error


def host_images(folder: Path, settings: ImageCacheSettings, transfers: ImageTransfers | None = None) -> HostImages:
    """Return the image cache, below ``folder``, that all hosts of a process share."""
    return HostImages(
        folder / settings.subdirectory_name,
        max_bytes=settings.max_size_mib << 20,
        retries=settings.num_retries,
        verify=settings.verify,
        transfers=transfers,
        in_use=lambda: bases_in_use(folder),
    )


def image_cache_of(folders: Sequence[Path], settings: ImageCacheSettings) -> ImageCacheManager:
    """Return the periodic task that removes unused images from the image caches below ``folders``."""
    return ImageCacheManager(
        tuple(host_images(folder, settings) for folder in folders),
        settings.manager_interval_s,
        settings.unused_min_age_s,
        settings.remove_unused_resized_minimum_age_s,
    )


def ratios_of(compute: ComputeSettings) -> AllocationRatios:
    """Return the allocation ratios and reserved memory that a host reports to Placement."""
    return AllocationRatios(
        cpu=compute.cpu_allocation_ratio or compute.initial_cpu_allocation_ratio,
        memory=compute.ram_allocation_ratio or compute.initial_ram_allocation_ratio,
        disk=compute.disk_allocation_ratio or compute.initial_disk_allocation_ratio,
        reserved_memory_mib=compute.reserved_host_memory_mib,
    )


def power_reporting_of(compute: ComputeSettings) -> PowerReporting:
    """Return the settings of agents for reports of power states."""
    return PowerReporting(
        compute.sync_power_state_interval_s,
        compute.handle_virt_lifecycle_events,
        compute.resume_guests_state_on_host_boot,
    )


def running_deleted_of(compute: ComputeSettings) -> RunningDeleted:
    """Return the settings of agents for guests of deleted servers."""
    action = RunningDeletedAction(compute.running_deleted_instance_action)
    return RunningDeleted(action, compute.running_deleted_instance_timeout_s)
