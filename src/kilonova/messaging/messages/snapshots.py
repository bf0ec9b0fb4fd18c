# SPDX-License-Identifier: Apache-2.0
"""Orders for snapshots: the host copies the disk of a guest and uploads the copy to the image service."""

from kilonova.messaging.messages.steps import StepId
from kilonova.model.image_data import ImageData
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class SnapshotGuest:
    """Copy the current disk of a guest, for the image ``image_id``; no error if the copy already exists.

    ``base``: source of the guest's base image, which the host fetches if its image cache does not have it.
    """

    step: StepId
    instance_uuid: str
    image_id: str
    base: ImageData | None = None


@dataclass(frozen=True, slots=True)
class UploadSnapshot:
    """Upload the copy of a guest's disk to the image service, and delete the copy; no error if already uploaded."""

    step: StepId
    instance_uuid: str
    image: ImageData


@dataclass(frozen=True, slots=True)
class DiscardSnapshot:
    """Delete the copy of a guest's disk. No error if absent."""

    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class CancelSnapshot:
    """Cancel the ``SnapshotGuest`` or ``UploadSnapshot`` of this workflow, if running, queued or not yet received.

    The cancellation has no reply: the reply to the cancelled order says whether it was cancelled or completed.
    """

    step: StepId
    instance_uuid: str


SnapshotOrder = SnapshotGuest | UploadSnapshot | DiscardSnapshot
