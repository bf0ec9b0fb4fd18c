# SPDX-License-Identifier: Apache-2.0
"""Periodic task that removes unwanted images from the image service."""

import logging

from kilonova.conductor.guest_data.image_keeper import ImageKeeper
from kilonova.db import unwanted_images
from kilonova.db.database import Database
from kilonova.periodic import PeriodicPart, PeriodicThread

LOG = logging.getLogger(__name__)
_EVERY_S = 1.0
_AT_ONCE = 100


class ImageRemover(PeriodicPart):
    """Task that removes the images recorded as unwanted.

    Several processes may run it at the same time: a missing image is no error.
    """

    def __init__(self, database: Database, keeper: ImageKeeper, *, every_s: float = _EVERY_S) -> None:
        self._database = database
        self._keeper = keeper
        thread = PeriodicThread(
            "unwanted images",
            self.turn,
            every_s,
            description="Remove unwanted images from the image service.",
            complaint="Unwanted images were not removed",
        )
        super().__init__("unwanted images", [thread])

    def turn(self) -> None:
        """Remove a batch of unwanted images. Raises: Unavailable if the image service cannot be reached."""
        with self._database.read() as connection:
            waiting = unwanted_images.oldest(connection, _AT_ONCE)
        removed: list[str] = []
        try:
            for image_id in waiting:
                self._keeper.remove(image_id)
                removed.append(image_id)
                LOG.info("Removed unwanted image %s", image_id)
        finally:
            if removed:
                self._database.write(lambda tx: unwanted_images.forget(tx, removed))
