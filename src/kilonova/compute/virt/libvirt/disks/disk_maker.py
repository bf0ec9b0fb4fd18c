# SPDX-License-Identifier: Apache-2.0
"""Creation of the single disks of a guest, in a draft folder that is not yet in use."""

from pathlib import Path

import msgspec

from kilonova.compute.config_drives import iso9660_of
from kilonova.compute.virt.libvirt.disks import disk_tool
from kilonova.compute.virt.libvirt.disks.base_images import Base, BaseImages
from kilonova.compute.virt.libvirt.disks.disk_records import DiskRecord, MadeDisk, write_record
from kilonova.compute.virt.libvirt.disks.disk_tool import QCOW2, RAW
from kilonova.compute.virt.libvirt.disks.file_systems import make_swap_space, of_ephemeral_disks
from kilonova.compute.virt.libvirt.domain.description import DiskRole
from kilonova.config.libvirt import LibvirtSettings
from kilonova.guest_metadata import files_of
from kilonova.model.image_data import ImageData
from kilonova.model.instance import GuestSpec

_MIB, _GIB = 1 << 20, 1 << 30
ROOT, SWAP, CONFIG = "disk", "disk.swap", "disk.config"
RESCUE, RESCUE_CONFIG = "disk.rescue", "disk.config.rescue"
_DRAFT = ".part"


class DiskMaker:
    """Creates disks: each method makes one disk in a folder and returns the folder's record with the disk added.

    The name of a disk's base image is written to the record before the disk is made. From then on, the base image is in
    use and is not removed from the image cache.
    Raises: DriverError, ImageUnusable, OSError.
    """

    def __init__(self, bases: BaseImages, settings: LibvirtSettings) -> None:
        self._bases = bases
        self._settings = settings

    @property
    def _format(self) -> str:
        return QCOW2 if self._settings.has_cow_disks else RAW

    def root(self, folder: Path, record: DiskRecord, guest: GuestSpec) -> DiskRecord:
        if guest.image is None:
            self._make_empty(folder / ROOT, guest.root_gib * _GIB)
            return record.having(MadeDisk(DiskRole.ROOT, ROOT, self._format))
        return self._of_image(folder, record, DiskRole.ROOT, ROOT, guest.image, guest.root_gib)

    def rescue(self, folder: Path, record: DiskRecord, guest: GuestSpec, image: ImageData) -> DiskRecord:
        remove_rescue(folder)
        record = self._of_image(folder, record, DiskRole.RESCUE, RESCUE, image, guest.root_gib)
        return self._config(folder, record, guest, DiskRole.RESCUE_CONFIG, RESCUE_CONFIG)

    def ephemeral(self, folder: Path, record: DiskRecord, guest: GuestSpec) -> DiskRecord:
        """Make the ephemeral disks of a guest that are not yet in the record."""
        os_type = guest.image_properties.get("os_type", "")
        default = of_ephemeral_disks(os_type, self._settings.default_ephemeral_format)
        for index, disk in enumerate(guest.ephemeral):
            file = ephemeral_file(index)
            if not record.has_file(file):
                with self._bases.ephemeral(disk.gib, disk.file_system or default, index) as base:
                    made = MadeDisk(DiskRole.EPHEMERAL, file, self._format, base.name, bus=disk.bus or "")
                    record = _noted(folder, record, made)
                record = self._made(folder, record, made, base, base.virtual_bytes)
        return record

    def swap(self, folder: Path, record: DiskRecord, guest: GuestSpec) -> DiskRecord:
        draft = folder / f"{SWAP}{_DRAFT}"
        draft.unlink(missing_ok=True)
        disk_tool.make_empty(draft, RAW, guest.swap_mib * _MIB)
        make_swap_space(draft)
        draft.replace(folder / SWAP)
        return record.having(MadeDisk(DiskRole.SWAP, SWAP, RAW, bus=guest.swap_bus or ""))

    def config(self, folder: Path, record: DiskRecord, guest: GuestSpec) -> DiskRecord:
        """Make the config drive of a guest, if the guest is to have one."""
        return self._config(folder, record, guest, DiskRole.CONFIG, CONFIG)

    def _config(self, folder: Path, record: DiskRecord, guest: GuestSpec, role: DiskRole, file: str) -> DiskRecord:
        """Make a config drive. Only the owner of the file can read it, since the drive contains secrets."""
        if guest.config_drive is None:
            return record.without(role) if role is DiskRole.RESCUE_CONFIG else record
        draft = folder / f"{file}{_DRAFT}"
        draft.unlink(missing_ok=True)
        draft.touch(0o600)
        draft.write_bytes(iso9660_of(files_of(guest, guest.config_drive)))
        draft.replace(folder / file)
        return record.having(MadeDisk(role, file, RAW))

    def _of_image(
        self, folder: Path, record: DiskRecord, role: DiskRole, file: str, image: ImageData, root_gib: int
    ) -> DiskRecord:
        with self._bases.use(image, root_gib) as base:
            made = MadeDisk(role, file, self._format, base.name, is_cdrom=base.is_iso)
            record = _noted(folder, record, made)
        size_bytes = base.virtual_bytes if base.is_iso else max(base.virtual_bytes, root_gib * _GIB)
        return self._made(folder, record, made, base, size_bytes)

    def _made(self, folder: Path, record: DiskRecord, noted: MadeDisk, base: Base, size_bytes: int) -> DiskRecord:
        """Make the disk ``noted``, which is already in the record."""
        file = folder / noted.file
        if noted.format == QCOW2:
            disk_tool.make_overlay(file, base.path, base.format, size_bytes)
        elif base.format == RAW:
            disk_tool.copy(base.path, file)
        else:
            disk_tool.convert(base.path, base.format, file, RAW)
        if noted.format == RAW and size_bytes > disk_tool.virtual_bytes(file, RAW):
            disk_tool.grow(file, RAW, size_bytes)
        self._finish(file, size_bytes)
        return record if noted.format == QCOW2 else record.having(msgspec.structs.replace(noted, base=""))

    def _make_empty(self, file: Path, size_bytes: int) -> None:
        disk_tool.make_empty(file, self._format, size_bytes)
        self._finish(file, size_bytes)

    def _finish(self, file: Path, size_bytes: int) -> None:
        if self._settings.preallocate_images == "space":
            disk_tool.reserve(file, size_bytes)


def ephemeral_file(index: int) -> str:
    """Return the file name of a guest's ephemeral disk."""
    return f"disk.eph{index}"


def _noted(folder: Path, record: DiskRecord, made: MadeDisk) -> DiskRecord:
    record = record.having(made)
    write_record(folder, record, is_draft=True)  # no fsync: after a host crash the disk is made again
    return record


def remove_rescue(folder: Path) -> None:
    """Remove the rescue disks in a folder, first the config drive with the password. Raises: OSError.

    No error if a disk does not exist.
    """
    for name in (f"{RESCUE_CONFIG}{_DRAFT}", RESCUE_CONFIG, RESCUE):
        (folder / name).unlink(missing_ok=True)
