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
from kilonova.model.instance import PowerState
from kilonova.model.transitions import TRANSITIONS

if TYPE_CHECKING:
    from kilonova.conductor.service import Conductor


@dataclass(frozen=True, slots=True)
class PowerAction:
    """``event``: what has happened when it is done. ``message``: what the host is told."""

    event: str
    message: Callable[[StepId, str], AgentMessage]


ACTIONS: Mapping[str, PowerAction] = {
    "start": PowerAction("started", StartGuest),
    "stop": PowerAction("stopped", StopGuest),
    "reboot": PowerAction("rebooted", RebootGuest),
    "hard-reboot": PowerAction("rebooted", lambda step, uuid: RebootGuest(step, uuid, hard=True)),
}


def _ask_host(conductor: "Conductor", flow: Workflow) -> Workflow | None:
    return conductor.send(flow, ACTIONS[flow.kind].message(step_id(flow), flow.instance_uuid))


def _settle(conductor: "Conductor", flow: Workflow, reply: StepReply) -> Workflow | None:
    transition = TRANSITIONS[flow.kind]

    def settle(tx: Transaction) -> None:
        workflows.finish(tx, flow, conductor.owner)
        values: dict[str, Any] = {"task_state": None}
        if not is_unreachable(reply):
            values["power_state"] = reply.power_state
        if reply.error is None:
            values["vm_state"] = transition.settled
        else:
            instances.record_fault(tx, flow.instance_uuid, reply.as_fault())
            if transition.failed is not None and not is_unreachable(reply):
                runs = reply.power_state is PowerState.RUNNING
                values["vm_state"] = transition.settled if runs else transition.failed
        instances.change(tx, flow.instance_uuid, expected_tasks={transition.shown[0]}, **values)

    if conductor.end(flow, settle):
        if reply.error is None:
            story.done(flow, ACTIONS[flow.kind].event)
        else:
            story.failed(flow, reply.error, host=reply.host)
    return None


POWER: Mapping[str, Steps] = {kind: steps(Step("act", do=_ask_host, reply=_settle)) for kind in ACTIONS}
