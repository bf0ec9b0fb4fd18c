# SPDX-License-Identifier: Apache-2.0
"""The agents of simulated hosts, each with a hypervisor whose guests live in a file of its own."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kilonova.cli.scenario_settings import ratios_of
from kilonova.compute.agent import Agent
from kilonova.compute.images import HostImages
from kilonova.compute.removals import RunningDeleted, RunningDeletedAction
from kilonova.compute.virt.fake import FakeDriver
from kilonova.config.images import ImageCacheSettings
from kilonova.config.settings import Settings
from kilonova.errors import ConfigurationError
from kilonova.scenario.model import SimulatedHost


def simulate(
    hosts: Sequence[SimulatedHost], settings: Settings, bus: Any, may_act: Callable[[], bool]
) -> tuple[Agent, ...]:
    """Return an agent for each host; none of them is started. Raises: ConfigurationError."""
    if not hosts:
        return ()
    folder = settings.fake.state_dir
    if folder is None:
        raise ConfigurationError("[fake] state_dir must be set when there are simulated hosts.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    ratios = ratios_of(settings)
    images = host_images(folder, settings.image_cache) if settings.fake.read_images else None
    return tuple(
        Agent(
            host.name,
            FakeDriver(host, folder / f"{quote(host.name, safe='')}.json", ratios, images=images),
            bus,
            may_act=may_act,
            running_deleted=running_deleted_of(settings),
        )
        for host in hosts
    )


def host_images(folder: Path, settings: ImageCacheSettings) -> HostImages:
    """Return the images that all hosts of a process keep, below their own ``folder``."""
    return HostImages(
        folder / settings.subdirectory_name,
        max_bytes=settings.max_size_mib << 20,
        retries=settings.num_retries,
        verify=settings.verify,
    )


def running_deleted_of(settings: Settings) -> RunningDeleted:
    """Return what agents do about guests of deleted servers."""
    compute = settings.compute
    action = RunningDeletedAction(compute.running_deleted_instance_action)
    return RunningDeleted(action, compute.running_deleted_instance_timeout_s)
