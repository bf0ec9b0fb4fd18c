# SPDX-License-Identifier: Apache-2.0
"""Start, stop and reboot: one message to the host, then the settled state.

A failure leaves a fault and no running task; a reboot after which the guest does not run leaves the instance in error,
unless its host cannot be reached, so that nobody knows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kilonova.conductor import story
from kilonova.conductor.steps import Step, Steps, is_unreachable, step_id, steps
from kilonova.db import instances, workflows
from kilonova.db.transaction import Transaction
from kilonova.db.workflows import Workflow
from kilonova.messaging.messages import AgentMessage, RebootGuest, StartGuest, StepId, StepReply, StopGuest
from kilonova.model.instance import PowerState, TaskState, VmState

if TYPE_CHECKING:
    from kilonova.conductor.service import Conductor


@dataclass(frozen=True, slots=True)
class PowerAction:
    """``task``: shown while it runs. ``settled``, ``failed``: vm_state afterwards; ``failed`` None keeps it.

    ``event``: what has happened when it is done.
    """

    event: str
    task: TaskState
    message: Callable[[StepId, str], AgentMessage]
    settled: VmState
    failed: VmState | None = None


ACTIONS: Mapping[str, PowerAction] = {
    "start": PowerAction("started", TaskState.POWERING_ON, StartGuest, VmState.ACTIVE),
    "stop": PowerAction("stopped", TaskState.POWERING_OFF, StopGuest, VmState.STOPPED),
    "reboot": PowerAction("rebooted", TaskState.REBOOTING, RebootGuest, VmState.ACTIVE, VmState.ERROR),
    "hard-reboot": PowerAction(
        "rebooted",
        TaskState.REBOOTING_HARD,
        lambda step, uuid: RebootGuest(step, uuid, hard=True),
        VmState.ACTIVE,
        VmState.ERROR,
    ),
}


def _ask_host(conductor: "Conductor", flow: Workflow) -> Workflow | None:
    action = ACTIONS[flow.kind]
    return conductor.send(flow, action.message(step_id(flow), flow.instance_uuid))


def _settle(conductor: "Conductor", flow: Workflow, reply: StepReply) -> Workflow | None:
    action = ACTIONS[flow.kind]

    def settle(tx: Transaction) -> None:
        workflows.finish(tx, flow, conductor.owner)
        values: dict[str, Any] = {"task_state": None}
        if not is_unreachable(reply):
            values["power_state"] = reply.power_state
        if reply.error is None:
            values["vm_state"] = action.settled
        else:
            instances.record_fault(tx, flow.instance_uuid, reply.as_fault())
            if action.failed is not None and not is_unreachable(reply):
                runs = reply.power_state is PowerState.RUNNING
                values["vm_state"] = action.settled if runs else action.failed
        instances.change(tx, flow.instance_uuid, expected_tasks={action.task}, **values)

    if conductor.end(flow, settle):
        if reply.error is None:
            story.done(flow, action.event)
        else:
            story.failed(flow, reply.error, host=reply.host)
    return None


POWER: Mapping[str, Steps] = {kind: steps(Step("act", do=_ask_host, reply=_settle)) for kind in ACTIONS}
