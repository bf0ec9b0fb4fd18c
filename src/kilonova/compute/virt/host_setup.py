# SPDX-License-Identifier: Apache-2.0
"""What a hypervisor driver is made with."""

from dataclasses import dataclass, field
from pathlib import Path

from kilonova.compute.files.images import HostImages
from kilonova.config.host_resources import HostResourceSettings
from kilonova.model.allocation_ratios import AllocationRatios


@dataclass(frozen=True, slots=True)
class HostSetup:
    """The host that a driver serves, as the configuration of its process says.

    ``host``: its name in the cloud, which :meth:`VirtDriver.report` repeats. ``folder``: for guests and whatever else
    has to outlive the process; it exists. ``images``: fetches images by what a :class:`GuestSpec` says of its image.
    ``ratios``: what the inventories that it reports have beside their size. ``resources``: what of the host is offered.
    """

    host: str
    folder: Path
    images: HostImages
    ratios: AllocationRatios = field(default_factory=AllocationRatios)
    resources: HostResourceSettings = field(default_factory=HostResourceSettings)
