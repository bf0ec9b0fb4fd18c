# SPDX-License-Identifier: Apache-2.0
"""Orders about the image cache of a host."""

from kilonova.messaging.messages.steps import StepId
from kilonova.model.image_data import ImageData
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class CacheImages:
    """Fetch images into the image cache before a guest needs them. ``StepReply.images`` has the result per image."""

    step: StepId
    images: tuple[ImageData, ...]

    @property
    def instance_uuid(self) -> str:
        """Empty: the order is about no instance."""
        return ""


ImageOrder = CacheImages
