# SPDX-License-Identifier: Apache-2.0
"""Remove the images that nobody needs any more, in the background, as soon as the image service can be asked."""

import logging

from kilonova.conductor.guest_data.image_keeper import ImageKeeper
from kilonova.db import unwanted_images
from kilonova.db.database import Database
from kilonova.periodic import PeriodicPart, PeriodicThread

LOG = logging.getLogger(__name__)
_EVERY_S = 1.0
_AT_ONCE = 100


class ImageRemover(PeriodicPart):
    """Works off what is noted. Several processes may do so side by side: an image that is gone is success."""

    def __init__(self, database: Database, keeper: ImageKeeper, *, every_s: float = _EVERY_S) -> None:
        self._database = database
        self._keeper = keeper
        thread = PeriodicThread(
            "unwanted images",
            self.turn,
            every_s,
            description="Remove images from the image service that no operation needs any more.",
            complaint="Images that nobody needs were not removed",
        )
        super().__init__("unwanted images", [thread])

    def turn(self) -> None:
        """Remove some images. Raises: Unavailable, when not all of them could be."""
        with self._database.read() as connection:
            waiting = unwanted_images.oldest(connection, _AT_ONCE)
        removed: list[str] = []
        try:
            for image_id in waiting:
                self._keeper.remove(image_id)
                removed.append(image_id)
                LOG.info("Image %s was removed: nobody needs it", image_id)
        finally:
            if removed:
                self._database.write(lambda tx: unwanted_images.forget(tx, removed))
