# SPDX-License-Identifier: Apache-2.0
"""What Kilonova's own user does about images while nobody's request is being answered: look, and remove."""

from typing import Protocol

from kilonova.model.image import Image


class ImageKeeper(Protocol):
    """Sees every image of the cloud. All of it raises Unavailable when the image service cannot be asked."""

    def find(self, image_id: str) -> Image | None:
        """Return an image whatever its status; None when there is none."""

    def remove(self, image_id: str) -> None:
        """Remove an image. One that is gone is success, and so is one that is protected: it stays."""

    def backups_like(self, image_id: str) -> tuple[str, ...]:
        """Return the backups of the same server, type and owner as this one, itself included, the newest first."""
