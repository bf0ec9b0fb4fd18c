# SPDX-License-Identifier: Apache-2.0
"""Interface to find and remove images with the credentials of Kilonova's own user instead of a requester's."""

from typing import Protocol

from kilonova.model.image import Image


class ImageKeeper(Protocol):
    """Access to all images of the cloud. All methods raise Unavailable if Glance cannot be reached."""

    def find(self, image_id: str) -> Image | None:
        """Return an image in any status; None if it does not exist."""

    def remove(self, image_id: str) -> None:
        """Remove an image. No error if the image is missing. A protected image is kept, also without an error."""

    def backups_like(self, image_id: str) -> tuple[str, ...]:
        """Return the ids of all backups with the server, type and owner of backup ``image_id``, newest first."""
