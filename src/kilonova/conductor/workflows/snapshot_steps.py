# SPDX-License-Identifier: Apache-2.0
"""The steps by which the disk of a guest becomes an image. Creating an image, a backup and a shelve have them.

::

    register ──▶ snapshot ──▶ offer ──▶ upload
       │           │ the host copies the disk      the host brings the copy to the image
       └─ the image is there, without data

The image was registered with the user's own token while the request was answered, under an id that the journal had
before. Undone, it is noted as unwanted, so that the way back waits for no image service.
"""

from dataclasses import replace
from typing import Any

from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import one_way, sends, writes
from kilonova.conductor.workflow_engine.workflow import (
    Completed,
    Effect,
    Failed,
    Failure,
    Gone,
    Interrupt,
    Run,
    SendToAgent,
    Step,
    complete_or_fail,
    complete_or_repeat,
    is_unreachable,
)
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


def register(services: Services, run: Run[Any]) -> Effect:
    """See that the image is there: whoever stored the request registers it before it has us begin."""
    return _require(services, run, {_QUEUED})


def _unregister(tx: Transaction, run: Run[Any]) -> None:
    """Have the image removed."""
    unwanted_images.note(tx, [run.facts.image_id])


def snapshot(services: Services, run: Run[Any]) -> Effect:
    """Have the host copy the disk."""
    with services.database.read() as connection:
        instance = instances.find(connection, run.instance_uuid)
        if instance is None:
            return Gone()
        request = request_specs.get_many(connection, [instance]).get(instance.uuid)
    base = None if request is None else image_data_for(services, run.facts.host, request)
    return SendToAgent(run.facts.host, SnapshotGuest(run.step_id, run.instance_uuid, run.facts.image_id, base))


def discarded(services: Services, run: Run[Any], reply: StepReply) -> Effect:
    """A host that is not there drops its copy with the guest, or for the next one."""
    return Completed() if is_unreachable(reply) else complete_or_repeat(services, run, reply)


def offer(services: Services, run: Run[Any]) -> Effect:
    """See that somebody still wants the image, before all that is sent."""
    if run.interrupted is not None:
        return Failed(Failure(f"Interrupted by {run.interrupted.value}."))
    return _require(services, run, {_QUEUED})


def upload(services: Services, run: Run[Any]) -> Effect:
    """Have the host bring the copy.

    An image that has its data got it from an earlier start of this step, after which the host may have died: it drops
    the copy.
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


def uploaded(services: Services, run: Run[Any], reply: StepReply) -> Effect:
    """The image is made once it has its data, whatever becomes of the copy."""
    return Completed() if run.facts.brought else complete_or_fail(services, run, reply)


def _require(services: Services, run: Run[Any], statuses: set[str]) -> Effect:
    found = services.images.find(run.facts.image_id)
    if found is None:
        return _gone(run.facts.image_id)
    return Completed() if found.status in statuses else _taken(found)


def _gone(image_id: str) -> Failed:
    return Failed(Failure(f"Image {image_id} is not there any more.", fault_of=FaultOf.REQUEST))


def _taken(image: Image) -> Failed:
    said = f"Image {image.id} is {image.status}, and data is taken only while it is queued."
    return Failed(Failure(said, fault_of=FaultOf.REQUEST))


#: The host gives up what it copies or uploads.
_CUT_SHORT = {Interrupt.DELETE: sends(CancelSnapshot)}


def steps(
    event: str, *, taken: TaskState | None, offered: TaskState, uploading: TaskState
) -> tuple[Step[Any], Step[Any], Step[Any], Step[Any]]:
    """Return these steps, with the task states that a server shows meanwhile. ``event``: as users see the copying."""
    return (
        Step("register", do=register, undo=writes(_unregister), blocking=True),
        Step(
            "snapshot",
            do=snapshot,
            undo=sends(DiscardSnapshot),
            on_undone=discarded,
            shows=taken,
            event=event,
            interrupts=_CUT_SHORT,
        ),
        one_way("offer", offer, shows=offered, blocking=True),
        one_way("upload", upload, on_reply=uploaded, shows=uploading, interrupts=_CUT_SHORT, blocking=True),
    )
