# SPDX-License-Identifier: Apache-2.0
"""Steps that turn the disk of a guest into an image, shared by create image, backup and shelve.

::

    register ──▶ snapshot ──▶ offer ──▶ upload
       │           │ the host copies the disk      the host uploads the copy
       └─ the image exists, without data

The API registers the image with the user's own token before it answers, under an id that is already journalled. The
undo only records the image as unwanted, so that a rollback does not wait for Glance.
"""

from dataclasses import replace
from typing import Any, ClassVar, Protocol

from kilonova.conductor.workflow_engine.effects import Completed, Effect, Failed, Gone, SendToAgent
from kilonova.conductor.workflow_engine.run import DELETES, Failure, Run
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import one_way, sends, writes
from kilonova.conductor.workflow_engine.workflow import Step, complete_or_fail
from kilonova.conductor.workflows.guest_description import image_data_for
from kilonova.db import instances, request_specs, unwanted_images
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import (
    CancelSnapshot,
    DiscardSnapshot,
    FaultOf,
    SnapshotGuest,
    StepReply,
    UploadSnapshot,
)
from kilonova.model.image import Image
from kilonova.model.instance import TaskState

_QUEUED, _ACTIVE = "queued", "active"


class ImageFacts(Protocol):
    """Facts of a workflow that has these steps. ``host``: host of the guest; ``brought``: the image has its data."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def host(self) -> str: ...

    @property
    def image_id(self) -> str: ...

    @property
    def brought(self) -> bool: ...


def register(services: Services, run: Run[ImageFacts]) -> Effect:
    """Check that the image exists and is queued; the API registers the image before it starts the workflow."""
    return _require(services, run, {_QUEUED})


def _unregister(tx: Transaction, run: Run[ImageFacts]) -> None:
    """Record the image as unwanted, so that a periodic task removes it."""
    unwanted_images.note(tx, [run.facts.image_id])


def snapshot(services: Services, run: Run[ImageFacts]) -> Effect:
    """Order the host to copy the guest's disk."""
    with services.database.read() as connection:
        instance = instances.find(connection, run.instance_uuid)
        if instance is None:
            return Gone()
        request = request_specs.get_many(connection, [instance]).get(instance.uuid)
    base = None if request is None else image_data_for(services, run.facts.host, request)
    return SendToAgent(run.facts.host, SnapshotGuest(run.step_id, run.instance_uuid, run.facts.image_id, base))


def offer(services: Services, run: Run[ImageFacts]) -> Effect:
    """Check before the long upload that the workflow was not interrupted and that the image is still queued."""
    if run.interrupted is not None:
        return Failed(Failure(f"Interrupted by {run.interrupted.value}."))
    return _require(services, run, {_QUEUED})


def upload(services: Services, run: Run[ImageFacts]) -> Effect:
    """Order the host to upload its copy of the disk.

    If the image already has its data, an earlier attempt has uploaded the data, but the host failed before it reported
    the upload. Then the order to the host is only to remove the copy.
    """
    found = services.images.find(run.facts.image_id)
    if found is not None and found.status == _ACTIVE:
        return SendToAgent(
            run.facts.host, DiscardSnapshot(run.step_id, run.instance_uuid), facts=replace(run.facts, brought=True)
        )
    where = services.image_upload(run.facts.host, run.facts.image_id)
    if found is None or where is None:
        return _gone(run.facts.image_id)
    where = replace(where, disk_format=found.disk_format)
    return SendToAgent(run.facts.host, UploadSnapshot(run.step_id, run.instance_uuid, where))


def uploaded(services: Services, run: Run[ImageFacts], reply: StepReply) -> Effect:
    """Complete if the image has its data, even if the host could not remove its copy of the disk."""
    return Completed() if run.facts.brought else complete_or_fail(services, run, reply)


def _require(services: Services, run: Run[ImageFacts], statuses: set[str]) -> Effect:
    found = services.images.find(run.facts.image_id)
    if found is None:
        return _gone(run.facts.image_id)
    return Completed() if found.status in statuses else _taken(found)


def _gone(image_id: str) -> Failed:
    return Failed(Failure(f"Image {image_id} no longer exists.", fault_of=FaultOf.REQUEST))


def _taken(image: Image) -> Failed:
    said = f"Image {image.id} is {image.status}; its data can be uploaded only while it is queued."
    return Failed(Failure(said, fault_of=FaultOf.REQUEST))


#: Interrupt → order that cuts a step short: the host stops copying or uploading.
_CUT_SHORT = dict.fromkeys(DELETES, sends(CancelSnapshot))


def steps(
    event: str, *, taken: TaskState | None, offered: TaskState, uploading: TaskState
) -> tuple[Step[Any], Step[Any], Step[Any], Step[Any]]:
    """Return the steps that make an image. ``event``: name of their instance action event.

    ``taken``, ``offered``, ``uploading``: the server's task states from "snapshot", "offer" and "upload" on; None:
    unchanged.
    """
    return (
        Step("register", do=register, undo=writes(_unregister), event=event, blocking=True),
        Step(
            "snapshot",
            do=snapshot,
            undo=sends(DiscardSnapshot),
            shows=taken,
            event=event,
            interrupts=_CUT_SHORT,
        ),
        one_way("offer", offer, shows=offered, event=event, blocking=True),
        one_way(
            "upload",
            upload,
            on_reply=uploaded,
            shows=uploading,
            event=event,
            interrupts=_CUT_SHORT,
            blocking=True,
        ),
    )
