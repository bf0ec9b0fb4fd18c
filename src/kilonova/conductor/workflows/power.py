# SPDX-License-Identifier: Apache-2.0
"""Start, pause, unpause, suspend and resume: one order to the host, then the settled state.

After a failure, the server has a fault and no task state. It is also in error if the state table says so and the host
received the order.
"""

from collections.abc import Mapping

from kilonova.conductor.workflow_engine.run import DELETES, Interrupt
from kilonova.conductor.workflow_engine.step_kinds import Message, order, sends
from kilonova.conductor.workflow_engine.workflow import Workflow
from kilonova.conductor.workflows.endings import failed_at_host, settled
from kilonova.conductor.workflows.host_facts import HostFacts
from kilonova.messaging.messages import PauseGuest, ResumeGuest, StartGuest, SuspendGuest, UnpauseGuest
from kilonova.model.transitions import TRANSITIONS


def _workflow(kind: str, done: str, message: Message) -> Workflow[HostFacts]:
    return Workflow(
        kind,
        HostFacts,
        (order("act", sends(message), event=f"compute_{kind}_instance"),),
        TRANSITIONS[kind],
        settle=settled,
        unwound=failed_at_host,
        action=kind,
        done=done,
        overtaken_by=DELETES | {Interrupt.OTHER_ACTION},
    )


POWER: Mapping[str, Workflow[HostFacts]] = {
    workflow.kind: workflow
    for workflow in (
        _workflow("start", "started", StartGuest),
        _workflow("pause", "paused", PauseGuest),
        _workflow("unpause", "unpaused", UnpauseGuest),
        _workflow("suspend", "suspended", SuspendGuest),
        _workflow("resume", "resumed", ResumeGuest),
    )
}
