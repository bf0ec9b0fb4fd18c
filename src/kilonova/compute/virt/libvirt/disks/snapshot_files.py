# SPDX-License-Identifier: Apache-2.0
"""Copies of guests' disks that are uploaded as images.

::

    INSTANCES/snapshots/UUID.IMAGE.qcow2   the copy for an image, in a format of the image service
    INSTANCES/snapshots/UUID.IMAGE.brought a marker: the copy has been uploaded
    INSTANCES/snapshots/of-UUID            a temporary file: the hypervisor copies a running guest's disk to it
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kilonova.compute.files.disk_copies import DiskCopies
from kilonova.compute.files.folders import make_folder
from kilonova.compute.virt.libvirt.disks import disk_tool
from kilonova.compute.virt.libvirt.disks.disk_tool import QCOW2, RAW
from kilonova.compute.virt.libvirt.disks.image_checks import QEMU_FORMATS
from kilonova.compute.virt.libvirt.domain.description import DiskFile
from kilonova.errors import DriverError

Check = Callable[[], None]
_AMI = "ami"


class SnapshotFiles:
    """The disk copies of a host that are uploaded as images.

    ``disk_format``, in all methods: a format as the image service names it; "" stands for qcow2.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._copies = DiskCopies(folder)

    @contextmanager
    def scratch(self, uuid: str) -> Iterator[Path]:
        """Yield the path of a file that does not exist yet, for a copy of a running guest's disk.

        The file is removed after the block. Raises: DriverError.
        """
        scratch = self._scratch(uuid)
        try:
            make_folder(self._folder)
            scratch.unlink(missing_ok=True)
        except OSError as error:
            raise DriverError(f"The host cannot copy the disk of guest {uuid}: {error.strerror}.") from error
        try:
            yield scratch
        finally:
            scratch.unlink(missing_ok=True)

    def is_done(self, uuid: str, image_id: str) -> bool:
        """Tell whether a guest's disk was copied for an image; True also if the copy was already uploaded."""
        return self.has_brought(uuid, image_id) or self._copied(uuid, image_id) is not None

    def copy_for_image(
        self, uuid: str, image_id: str, source: DiskFile, check: Check, *, disk_format: str = ""
    ) -> None:
        """Copy a disk, including its backing file's data, for an image; no error if the copy exists.

        Older copies of the guest's disk are removed. ``source``: the disk of a guest that is off, or a :meth:`scratch`
        file, which is moved instead of copied if it already has the requested format.
        If ``check`` raises an exception, no copy is left. Raises: DriverError.
        """
        if self.is_done(uuid, image_id):
            return
        disk_format = disk_format or QCOW2
        with self._copies.draft(uuid, _name(image_id, disk_format)) as draft:
            if source.path == self._scratch(uuid) and source.format == _qemu_format(disk_format):
                source.path.replace(draft)
            else:
                disk_tool.convert(source.path, source.format, draft, _qemu_format(disk_format), check)

    def for_upload(self, uuid: str, image_id: str, check: Check, *, disk_format: str = "") -> Path:
        """Return the copy for an image, converted to ``disk_format`` if it has another format. Raises: DriverError."""
        copied = self._copied(uuid, image_id)
        if copied is None:
            raise DriverError(f"The host has no snapshot of guest {uuid} for image {image_id}.")
        copy, present = copied
        if not disk_format or _qemu_format(disk_format) == _qemu_format(present):
            return copy
        with self._copies.draft(uuid, _name(image_id, disk_format), alone=False) as draft:
            disk_tool.convert(copy, _qemu_format(present), draft, _qemu_format(disk_format), check)
        copy.unlink(missing_ok=True)
        return self._copies.path(uuid, _name(image_id, disk_format))

    def has_brought(self, uuid: str, image_id: str) -> bool:
        """Tell whether the copy for an image has been uploaded."""
        return self._copies.has_brought(uuid, image_id)

    def note_brought(self, uuid: str, image_id: str) -> None:
        """Record that the copy for an image was uploaded, and remove the copy."""
        self._copies.note_brought(uuid, image_id)
        copied = self._copied(uuid, image_id)
        if copied is not None:
            copied[0].unlink(missing_ok=True)

    def discard(self, uuid: str) -> None:
        """Remove all copies of a guest's disk; no error if there are none. Raises: DriverError."""
        try:
            self._scratch(uuid).unlink(missing_ok=True)
            self._copies.discard(uuid)
        except OSError as error:
            raise DriverError(f"The host cannot drop a snapshot of guest {uuid}: {error.strerror}.") from error

    def _copied(self, uuid: str, image_id: str) -> tuple[Path, str] | None:
        """Return the path and the format of the copy for an image, or None if there is no copy."""
        for disk_format in (*QEMU_FORMATS, _AMI):
            copy = self._copies.copied(uuid, _name(image_id, disk_format))
            if copy is not None:
                return copy, disk_format
        return None

    def _scratch(self, uuid: str) -> Path:
        return self._folder / f"of-{uuid}"


def _name(image_id: str, disk_format: str) -> str:
    return f"{image_id}.{disk_format}"


def _qemu_format(disk_format: str) -> str:
    """Return QEMU's name of a format. Raises: DriverError if images cannot be made in that format."""
    if disk_format == _AMI:
        return RAW
    with contextlib.suppress(KeyError):
        return QEMU_FORMATS[disk_format]
    raise DriverError(f"Images of the format {disk_format} cannot be created from disks.")
