# SPDX-License-Identifier: Apache-2.0
"""The constructor argument of hypervisor drivers."""

from dataclasses import field
from pathlib import Path

from kilonova.compute.files.images import HostImages
from kilonova.config.host_resources import HostResourceSettings
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class HostSetup:
    """Configuration of the host that a driver manages.

    ``host``: name of the host in the cloud; ``VirtDriver.report`` returns this name.
    ``folder``: existing folder for guests and other persistent files.
    ``images``: the image cache, which downloads the image that a ``GuestSpec`` names.
    ``ratios``: allocation ratios and reserved amounts of the reported inventories.
    ``resources``: which resources of the host are offered to guests.
    """

    host: str
    folder: Path
    images: HostImages
    ratios: AllocationRatios = field(default_factory=AllocationRatios)
    resources: HostResourceSettings = field(default_factory=HostResourceSettings)
