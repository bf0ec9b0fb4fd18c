# SPDX-License-Identifier: Apache-2.0
"""Records of guests' disks: the base images of the disks, and their formats, so that a format is never probed.

::

    INSTANCES/UUID/disks.json          the record of a guest
    INSTANCES/UUID_resize/disks.json   the record of a guest that is kept for a move
"""

import contextlib
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from kilonova.compute.virt.libvirt.domain.description import DiskFile, DiskRole
from kilonova.decoding import decode
from kilonova.errors import DriverError

NAME = "disks.json"
#: Roles of the disks that only a rescued guest has.
OF_RESCUES = (DiskRole.RESCUE, DiskRole.RESCUE_CONFIG)


class MadeDisk(msgspec.Struct, frozen=True):
    """A disk file of a guest. ``base``: file name of the disk's base image, or "" if the disk has none.

    ``is_cdrom``: whether the disk was made from a CD image. ``bus``: the requested bus, or "" if none was requested.
    """

    role: DiskRole
    file: str
    format: str
    base: str = ""
    is_cdrom: bool = False
    bus: str = ""

    def in_folder(self, folder: Path) -> DiskFile:
        return DiskFile(self.role, folder / self.file, self.format, self.is_cdrom, self.bus)

    def takes_place_of(self, other: "MadeDisk") -> bool:
        """Tell whether the disk replaces ``other``: it has the same role, and the same file if it is ephemeral."""
        return self.role is other.role and (self.role is not DiskRole.EPHEMERAL or self.file == other.file)


class DiskRecord(msgspec.Struct, frozen=True):
    """Record of the disks of a guest. ``ordered_at``: ``GuestSpec.ordered_at`` of the order that created the disks."""

    disks: tuple[MadeDisk, ...] = ()
    ordered_at: datetime | None = None

    def find(self, role: DiskRole) -> MadeDisk | None:
        return next((disk for disk in self.disks if disk.role is role), None)

    def has_file(self, file: str) -> bool:
        return any(disk.file == file for disk in self.disks)

    def get(self, role: DiskRole) -> MadeDisk:
        """Return the disk of a role. Raises: DriverError if there is none."""
        made = self.find(role)
        if made is None:
            raise DriverError(f"The guest has no {role} disk.")
        return made

    def having(self, made: MadeDisk) -> "DiskRecord":
        """Return the record with ``made``, which replaces the disk in its place."""
        others = tuple(disk for disk in self.disks if not made.takes_place_of(disk))
        return DiskRecord(tuple(sorted((*others, made), key=_place)), self.ordered_at)

    def without(self, *roles: DiskRole) -> "DiskRecord":
        return DiskRecord(tuple(disk for disk in self.disks if disk.role not in roles), self.ordered_at)

    def files(self, folder: Path) -> tuple[DiskFile, ...]:
        """Return the disks of a guest, except rescue disks."""
        return tuple(disk.in_folder(folder) for disk in self.disks if disk.role not in OF_RESCUES)


def _place(disk: MadeDisk) -> int:
    return list(DiskRole).index(disk.role)


def read_record(folder: Path) -> DiskRecord | None:
    """Return the record in a folder, or None if there is none. Raises: DriverError."""
    try:
        return decode((folder / NAME).read_bytes(), DiskRecord)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise DriverError(f"{folder / NAME} cannot be read: {error}") from error


def write_record(folder: Path, record: DiskRecord, *, is_draft: bool = False) -> None:
    """Write the record of a folder atomically. ``is_draft``: skip the sync, since the whole folder is synced later.

    Raises: OSError.
    """
    draft = folder / f"{NAME}.part"
    draft.touch(0o600)
    with draft.open("wb") as file:
        file.write(msgspec.json.encode(record))
        file.flush()
        if not is_draft:
            os.fsync(file.fileno())
    draft.replace(folder / NAME)


def bases_by_folder(instances: Path) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the name of each folder of disks, with the names of the base images that its disks need.

    Raises: DriverError for an unreadable record; then no base image may be removed.
    """
    for file in instances.glob(f"*/{NAME}"):
        with contextlib.suppress(FileNotFoundError):
            record = read_record(file.parent)
            if record is not None:
                yield file.parent.name, frozenset(disk.base for disk in record.disks if disk.base)


def bases_in_use(instances: Path) -> frozenset[str]:
    """Return the names of the base images that disks of guests need. Raises: DriverError."""
    return frozenset().union(*(names for _, names in bases_by_folder(instances)))
