# SPDX-License-Identifier: Apache-2.0
"""Empty local disks of guests: ephemeral disks and swap."""

from kilonova.model.flavor import Flavor
from kilonova.records import dataclass

#: File systems that an ephemeral disk can be formatted with.
FILE_SYSTEMS = ("ext2", "ext3", "ext4", "ntfs", "vfat", "xfs")
#: Buses that a local disk can be requested for; whether a guest has the bus depends on its machine type.
DISK_BUSES = ("ide", "sata", "scsi", "usb", "virtio")


@dataclass(frozen=True, slots=True)
class EphemeralDisk:
    """An ephemeral disk.

    ``file_system``: None for the default of the host and the image. ``bus``: None for the bus of the root disk.
    """

    gib: int
    file_system: str | None = None
    bus: str | None = None


@dataclass(frozen=True, slots=True)
class SwapDisk:
    """A swap disk that a user requested. It replaces the flavor's swap until a resize to a flavor with other swap.

    ``of_flavor_mib``: size of the flavor's swap at the time of the request.
    """

    mib: int
    of_flavor_mib: int
    bus: str | None = None

    def applies_to(self, flavor: Flavor) -> bool:
        return flavor.swap_mib == self.of_flavor_mib


@dataclass(frozen=True, slots=True)
class LocalDisks:
    """The local disks that a user requested instead of those of the flavor; empty for the disks of the flavor."""

    ephemeral: tuple[EphemeralDisk, ...] = ()
    swap: SwapDisk | None = None

    @property
    def ephemeral_gib(self) -> int:
        """The total size of the requested ephemeral disks."""
        return sum(disk.gib for disk in self.ephemeral)


NO_LOCAL_DISKS = LocalDisks()
