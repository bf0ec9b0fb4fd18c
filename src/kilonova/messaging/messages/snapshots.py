# SPDX-License-Identifier: Apache-2.0
"""Images of guests: the host takes one of the guest's disk, and brings it to the image service."""

from dataclasses import dataclass

from kilonova.messaging.messages.steps import StepId
from kilonova.model.image_data import ImageData


@dataclass(frozen=True, slots=True)
class SnapshotGuest:
    """Copy the disk of a guest as it is now, for the image ``image_id``; a copy that is there already is success.

    ``base``: the image that the guest was made of, for a host that lacks it.
    """

    step: StepId
    instance_uuid: str
    image_id: str
    base: ImageData | None = None


@dataclass(frozen=True, slots=True)
class UploadSnapshot:
    """Bring the copy of a guest's disk to the image service, and drop it; brought already is success."""

    step: StepId
    instance_uuid: str
    image: ImageData


@dataclass(frozen=True, slots=True)
class DiscardSnapshot:
    """Drop the copy of a guest's disk. Absent is success."""

    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class CancelSnapshot:
    """Give up the copying or the upload of this workflow, whether it runs, waits or has not come yet.

    Has no reply: that of the order says whether it was given up or done before.
    """

    step: StepId
    instance_uuid: str


SnapshotOrder = SnapshotGuest | UploadSnapshot | DiscardSnapshot
