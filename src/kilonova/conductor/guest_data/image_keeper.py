# SPDX-License-Identifier: Apache-2.0
"""Interface for image access as Kilonova's own user, outside of API requests: find and remove."""

from typing import Protocol

from kilonova.model.image import Image


class ImageKeeper(Protocol):
    """Finds and removes any image of the cloud. All methods raise Unavailable if Glance cannot be reached."""

    def find(self, image_id: str) -> Image | None:
        """Return an image in any status; None if it does not exist."""

    def remove(self, image_id: str) -> None:
        """Remove an image. No error if the image is missing, or if it is protected and therefore stays."""

    def backups_like(self, image_id: str) -> tuple[str, ...]:
        """Return the backups of the same server, type and owner, including this one, newest first."""
