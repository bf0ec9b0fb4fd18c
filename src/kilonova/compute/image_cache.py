# SPDX-License-Identifier: Apache-2.0
"""Periodic removal of cached images that no guest has used for long."""

import logging
from collections.abc import Sequence

from kilonova.compute.files.images import HostImages
from kilonova.periodic import PeriodicPart, PeriodicThread

LOG = logging.getLogger(__name__)
#: Seconds between two runs if the configured interval is 0, as in Nova.
_DEFAULT_S = 60.0


class ImageCacheManager(PeriodicPart):
    """Removes unused images from the image caches of a process.

    ``interval_s``: seconds between two runs; negative disables the task.
    ``min_age_s``: seconds for which an image must be unused before it is removed; None disables the task.
    ``ephemeral_min_age_s``: the same for cached empty file systems of ephemeral disks; None: ``min_age_s`` applies.
    """

    def __init__(
        self,
        images: Sequence[HostImages],
        interval_s: float,
        min_age_s: float | None,
        ephemeral_min_age_s: float | None = None,
    ) -> None:
        self._images = images
        self._min_age_s = min_age_s
        self._ephemeral_min_age_s = ephemeral_min_age_s
        thread = PeriodicThread(
            "image cache",
            self.look,
            interval_s or _DEFAULT_S,
            description="Hosts remove cached images that no guest has used for long.",
            complaint="The removal of unused images failed",
        )
        super().__init__("image cache", [thread] if images and min_age_s is not None and interval_s >= 0 else [])

    def look(self) -> None:
        """Remove the images that have been unused for long enough."""
        if self._min_age_s is None:
            return
        for images in self._images:
            for name in images.forget_unused(self._min_age_s, self._ephemeral_min_age_s):
                LOG.info("Removed cached image %s: no guest uses it", name)
