# SPDX-License-Identifier: Apache-2.0
"""The images that hosts keep grow old: those that no guest has used for long are removed from time to time."""

import logging
from collections.abc import Sequence

from kilonova.compute.files.images import HostImages
from kilonova.periodic import PeriodicPart, PeriodicThread

LOG = logging.getLogger(__name__)
#: As in Nova, what is to be done every 0 seconds is done this often.
_DEFAULT_S = 60.0


class ImageCacheManager(PeriodicPart):
    """Looks after the images that the hosts of a process keep, in each place where they keep some.

    ``interval_s``: seconds between two looks; a negative one stands for never. ``min_age_s``: for how long an image has
    to be unused before it is removed, None for none ever; ``ephemeral_min_age_s``: the same for empty file systems.
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
            complaint="Nobody looked for images that are not used",
        )
        super().__init__("image cache", [thread] if images and min_age_s is not None and interval_s >= 0 else [])

    def look(self) -> None:
        """Remove what has not been used for long."""
        if self._min_age_s is None:
            return
        for images in self._images:
            for name in images.forget_unused(self._min_age_s, self._ephemeral_min_age_s):
                LOG.info("Image %s is removed from this machine: no guest uses it", name)
