# SPDX-License-Identifier: Apache-2.0
"""Disks of simulated guests, and copies of these disks that are uploaded to the image service.

A disk is a hard link to the cached image file that the guest was created from; simulated guests never write to it.

::

    FOLDER/disks/HOST/INSTANCE   the disk of an instance's guest and of its kept guest
    FOLDER/disks/HOST/copies/    copies of disks that are to be uploaded as images
"""

import errno
import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from urllib.parse import quote

from kilonova.compute.files.disk_copies import DiskCopies
from kilonova.errors import DriverError

_PIECE = 1 << 20
_DRAFT = ".part"


class Disks:
    """The disks of one host. ``folder``: contains a folder for each host of the process."""

    def __init__(self, folder: Path, host: str) -> None:
        self._all = folder
        self._folder = folder / quote(host, safe="")
        self._copies = self._folder / "copies"
        self.copies = DiskCopies(self._copies)
        self._host = host

    def make(self, uuid: str, data: Path) -> None:
        """Make a guest's disk from the file ``data``; it replaces an older disk of the guest. Raises: DriverError."""
        draft = self._folder / f"{uuid}{_DRAFT}"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft.unlink(missing_ok=True)
            try:
                os.link(data, draft)
            except OSError as error:
                if error.errno not in {errno.EPERM, errno.EMLINK, errno.EXDEV, errno.ENOTSUP}:
                    raise
                shutil.copyfile(data, draft)
            draft.replace(self._folder / uuid)
            draft.unlink(missing_ok=True)  # rename() does nothing if both paths are hard links to the same file
        except OSError as error:
            raise DriverError(f"Host {self._host} cannot make a disk: {error.strerror}.") from error

    def find(self, uuid: str) -> Path | None:
        """Return the path of a guest's disk, or None if the guest has no disk on this host."""
        file = self._folder / uuid
        return file if file.exists() else None

    def users(self) -> dict[int, list[str]]:
        """Return inode of a file → uuids of the guests whose disk is a hard link to that file."""
        found: dict[int, list[str]] = {}
        for file in self._folder.glob("*"):
            if file.is_file() and not file.name.endswith(_DRAFT):
                found.setdefault(file.stat().st_ino, []).append(file.name)
        return found

    def take_from(self, source: str, uuid: str) -> None:
        """Copy a guest's disk from ``source``, another host of this process, if the disk exists there."""
        file = self._all / quote(source, safe="") / uuid
        if file.exists():
            self.make(uuid, file)

    def remove(self, uuid: str) -> None:
        """Remove the disk of a guest, and the copies of this disk; no error if absent."""
        (self._folder / uuid).unlink(missing_ok=True)
        self.copies.discard(uuid)

    def keep_only(self, uuids: Collection[str]) -> None:
        """Remove the disks, and their copies, of all guests that are not in ``uuids``."""
        for file in list(self._folder.glob("*")):
            is_of_guest = file.name.partition(".")[0] in uuids and not file.name.endswith(_DRAFT)
            if file != self._copies and not is_of_guest:
                file.unlink(missing_ok=True)
        self.copies.keep_only(uuids)

    def copy(self, uuid: str, image_id: str, data: Path, check: Callable[[], None]) -> None:
        """Copy the data of a guest's disk for an image; no error if this copy exists. Older copies are removed.

        ``check`` is called for each chunk; if it raises, no copy is left. Raises: DriverError.
        """
        if self.copies.is_done(uuid, image_id):
            return
        with self.copies.draft(uuid, image_id) as draft, data.open("rb") as source, draft.open("wb") as target:
            while piece := source.read(_PIECE):
                check()
                target.write(piece)
