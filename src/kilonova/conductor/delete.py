# SPDX-License-Identifier: Apache-2.0
"""Delete: destroy the guest, then release everything and mark the instance deleted in one transaction."""

import logging
from typing import TYPE_CHECKING

from kilonova.conductor import story
from kilonova.conductor.actions import release_claim, require_absent
from kilonova.conductor.steps import HostIsBackError, Step, is_unreachable, step_id, steps
from kilonova.db import group_guards, instances, workflows
from kilonova.db.transaction import Transaction
from kilonova.db.workflows import Workflow
from kilonova.messaging.messages import DestroyGuest, StepReply
from kilonova.model.instance import TaskState, VmState

if TYPE_CHECKING:
    from kilonova.conductor.service import Conductor

LOG = logging.getLogger(__name__)
KIND = "delete"


def destroy_guest(conductor: "Conductor", flow: Workflow) -> Workflow | None:
    """Ask the host to destroy the guest; without a host there is none."""
    if flow.body.get("host") is None:
        nothing = StepReply(step_id(flow), "", flow.instance_uuid)
        return guest_destroyed(conductor, flow, nothing)
    return conductor.send(flow, DestroyGuest(step_id(flow), flow.instance_uuid))


def guest_destroyed(conductor: "Conductor", flow: Workflow, reply: StepReply) -> Workflow | None:
    """Release and mark deleted. A host that is not there counts as done: it cleans up when it comes back."""
    if reply.error is not None and not is_unreachable(reply):
        if conductor.end(flow, lambda tx: _fail(tx, conductor, flow, reply)):
            story.failed(flow, reply.error, host=reply.host)
        return None

    def vanish(tx: Transaction) -> None:
        if is_unreachable(reply):
            require_absent(tx, reply.host)
        workflows.finish(tx, flow, conductor.owner)
        release_claim(tx, flow.instance_uuid, flow.body.get("group"), flow.body.get("host"))
        group_guards.forget_members(tx, [flow.instance_uuid])
        instances.mark_deleted(tx, flow.instance_uuid)

    try:
        if conductor.end(flow, vanish):
            story.done(flow, "deleted")
    except HostIsBackError:
        return conductor.send_again(flow)
    return None


def _fail(tx: Transaction, conductor: "Conductor", flow: Workflow, reply: StepReply) -> None:
    workflows.finish(tx, flow, conductor.owner)
    instances.record_fault(tx, flow.instance_uuid, reply.as_fault())
    instances.change(
        tx, flow.instance_uuid, expected_tasks={TaskState.DELETING}, vm_state=VmState.ERROR, task_state=None
    )


DELETE = steps(Step("destroy", do=destroy_guest, reply=guest_destroyed))
