# SPDX-License-Identifier: Apache-2.0
"""Copies of disks on their way to the image service.

::

    FOLDER/INSTANCE.IMAGE          a copy of the disk of a guest that becomes an image
    FOLDER/INSTANCE.IMAGE.brought  …and has become one
"""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from kilonova.compute.files.folders import make_folder
from kilonova.errors import DriverError

_BROUGHT, _DRAFT = ".brought", ".part"


class DiskCopies:
    """Those of one host. They are few, so that a delete looks through them all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def is_done(self, uuid: str, image_id: str) -> bool:
        """Tell whether there is a copy for an image, or was until it had become it."""
        return self.has_brought(uuid, image_id) or self.copied(uuid, image_id) is not None

    @contextmanager
    def draft(self, uuid: str, image_id: str, *, alone: bool = True) -> Iterator[Path]:
        """Give the name of a file that becomes the copy for an image. ``alone``: other copies of the disk go.

        Without the file afterwards, or after an error, there is no copy. Raises: DriverError.
        """
        copy = self.path(uuid, image_id)
        draft = copy.with_name(f"{copy.name}{_DRAFT}")
        try:
            make_folder(self._folder)
            if alone:
                self.discard(uuid)
            try:
                yield draft
                with draft.open("rb") as file:
                    os.fsync(file.fileno())
                draft.replace(copy)
            finally:
                draft.unlink(missing_ok=True)
        except OSError as error:
            raise DriverError(f"The host cannot copy the disk of guest {uuid}: {error.strerror}.") from error

    def copied(self, uuid: str, image_id: str) -> Path | None:
        """Return the copy for an image, None where there is none."""
        copy = self.path(uuid, image_id)
        return copy if copy.exists() else None

    def has_brought(self, uuid: str, image_id: str) -> bool:
        """Tell whether the copy for an image has become it."""
        return self._brought(uuid, image_id).exists()

    def note_brought(self, uuid: str, image_id: str) -> None:
        """Note that a copy has become an image, and drop it; what a kill has left halfway is done to its end."""
        self._brought(uuid, image_id).touch()
        self.path(uuid, image_id).unlink(missing_ok=True)

    def discard(self, uuid: str) -> None:
        """Drop all copies of a disk; absent is success."""
        for file in list(self._folder.glob(f"{uuid}.*")):
            file.unlink(missing_ok=True)

    def keep_only(self, uuids: Collection[str]) -> None:
        """Remove what is left of guests that are gone, and what nobody finishes any more."""
        for file in list(self._folder.glob("*")):
            if file.name.partition(".")[0] not in uuids or file.name.endswith(_DRAFT):
                file.unlink(missing_ok=True)

    def path(self, uuid: str, image_id: str) -> Path:
        """Return what the copy for an image is called."""
        return self._folder / f"{uuid}.{quote(image_id, safe='')}"

    def _brought(self, uuid: str, image_id: str) -> Path:
        copy = self.path(uuid, image_id)
        return copy.with_name(f"{copy.name}{_BROUGHT}")
