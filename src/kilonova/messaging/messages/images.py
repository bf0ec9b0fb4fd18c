# SPDX-License-Identifier: Apache-2.0
"""Orders about the images that a host keeps."""

from dataclasses import dataclass

from kilonova.messaging.messages.steps import StepId
from kilonova.model.image_data import ImageData


@dataclass(frozen=True, slots=True)
class CacheImages:
    """Fetch images before a guest wants them. ``StepReply.images`` says what came of each."""

    step: StepId
    images: tuple[ImageData, ...]

    @property
    def instance_uuid(self) -> str:
        """It is about none."""
        return ""


ImageOrder = CacheImages
