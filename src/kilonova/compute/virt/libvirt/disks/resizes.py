# SPDX-License-Identifier: Apache-2.0
"""Resizing of disks. A disk with data is never shrunk."""

from datetime import datetime
from pathlib import Path

import msgspec

from kilonova.compute.virt.libvirt.disks import disk_tool
from kilonova.compute.virt.libvirt.disks.disk_maker import ROOT, DiskMaker, ephemeral_file
from kilonova.compute.virt.libvirt.disks.disk_records import OF_RESCUES, DiskRecord, MadeDisk, write_record
from kilonova.compute.virt.libvirt.domain.description import DiskRole
from kilonova.errors import UnsupportedGuest
from kilonova.model.instance import GuestSpec

_MIB, _GIB = 1 << 20, 1 << 30
#: Roles of the disks whose sizes the flavor or the request sets.
_SIZED = frozenset({DiskRole.ROOT, DiskRole.EPHEMERAL})


def resized(folder: Path, record: DiskRecord, guest: GuestSpec, maker: DiskMaker) -> DiskRecord:
    """Resize the disks in a folder to the sizes of a flavor, and rewrite the config drive.

    A swap disk of another size is replaced.
    Raises: UnsupportedGuest if a disk would shrink, before any change; DriverError, OSError.
    """
    wanted = {ephemeral_file(index): disk.gib for index, disk in enumerate(guest.ephemeral)} | {ROOT: guest.root_gib}
    sized = [disk for disk in record.disks if disk.role in _SIZED and not disk.is_cdrom]
    found = [(disk, wanted.get(disk.file, 0) * _GIB) for disk in sized]
    for disk, size_bytes in found:
        _require_no_shrinking(folder, disk, size_bytes)
    for disk, size_bytes in found:
        if size_bytes > _size(folder, disk):
            disk_tool.grow(folder / disk.file, disk.format, size_bytes)
    record = maker.ephemeral(folder, record, guest)
    record = _with_swap(folder, record, guest, maker)
    if guest.config_drive is not None:
        record = maker.config(folder, record, guest)
    write_record(folder, record)
    return record


def copied(source: Path, target: Path, record: DiskRecord, ordered_at: datetime | None) -> DiskRecord:
    """Copy the disks in ``source``, except swap and rescue disks, to ``target``; return the record of the copies.

    Raises: DriverError, OSError.
    """
    wanted = tuple(disk for disk in record.disks if disk.role not in {DiskRole.SWAP, *OF_RESCUES})
    made = msgspec.structs.replace(record, disks=wanted, ordered_at=ordered_at)
    write_record(target, made, is_draft=True)  # write the record first: it protects the base images from removal
    for disk in wanted:
        disk_tool.copy(source / disk.file, target / disk.file)
    return made


def _with_swap(folder: Path, record: DiskRecord, guest: GuestSpec, maker: DiskMaker) -> DiskRecord:
    present = record.find(DiskRole.SWAP)
    if present is not None and _size(folder, present) == guest.swap_mib * _MIB:
        return record
    if guest.swap_mib:
        return maker.swap(folder, record, guest)
    if present is not None:
        write_record(folder, record.without(DiskRole.SWAP))
        (folder / present.file).unlink(missing_ok=True)
    return record.without(DiskRole.SWAP)


def _require_no_shrinking(folder: Path, disk: MadeDisk, size_bytes: int) -> None:
    """Raise UnsupportedGuest if a disk would shrink. A flavor with a root disk of 0 GiB allows any size."""
    size = _size(folder, disk)
    if size_bytes < size and not (disk.role is DiskRole.ROOT and not size_bytes):
        raise UnsupportedGuest(
            f"The flavor's {disk.role} disk has {size_bytes} bytes, but the guest's disk has {size} bytes: disks "
            "cannot be shrunk."
        )


def _size(folder: Path, disk: MadeDisk) -> int:
    return disk_tool.virtual_bytes(folder / disk.file, disk.format)
