# SPDX-License-Identifier: Apache-2.0
"""Start, pause, suspend and their opposites: one message to the host, then the settled state.

A failure leaves a fault and no running task. Where the table says so it leaves the instance in error, too, unless the
host has never heard of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.workflow import (
    CALL_OFF,
    CALLED_OFF,
    Effect,
    Ended,
    Interrupt,
    Run,
    SendToAgent,
    Step,
    Workflow,
)
from kilonova.conductor.workflows.endings import ended_in, settled
from kilonova.messaging.messages import (
    AgentMessage,
    PauseGuest,
    ResumeGuest,
    StartGuest,
    StepId,
    SuspendGuest,
    UnpauseGuest,
)
from kilonova.model.transitions import TRANSITIONS


@dataclass(frozen=True, slots=True)
class PowerFacts:
    """``host``: where the guest is."""

    host: str


def _failed(_services: Services, run: Run[PowerFacts]) -> Ended:
    transition = TRANSITIONS[run.row.kind]
    power_state = run.failure.known_power_state
    if power_state is None:
        return ended_in(run, None, None)
    return ended_in(run, transition.failed, power_state)


def _workflow(
    kind: str, action: str, done: str, event: str, message: Callable[[StepId, str], AgentMessage]
) -> Workflow[PowerFacts]:
    def ask_host(_services: Services, run: Run[PowerFacts]) -> Effect:
        return SendToAgent(run.facts.host, message(run.step_id, run.instance_uuid))

    return Workflow(
        kind,
        PowerFacts,
        (Step("act", do=ask_host, undo=CALL_OFF, on_undone=CALLED_OFF, event=event),),
        TRANSITIONS[kind],
        settle=settled,
        unwound=_failed,
        action=action,
        done=done,
        overtaken_by=frozenset({Interrupt.DELETE, Interrupt.OTHER_ACTION}),
    )


POWER: Mapping[str, Workflow[PowerFacts]] = {
    workflow.kind: workflow
    for workflow in (
        _workflow("start", "start", "started", "compute_start_instance", StartGuest),
        _workflow("pause", "pause", "paused", "compute_pause_instance", PauseGuest),
        _workflow("unpause", "unpause", "unpaused", "compute_unpause_instance", UnpauseGuest),
        _workflow("suspend", "suspend", "suspended", "compute_suspend_instance", SuspendGuest),
        _workflow("resume", "resume", "resumed", "compute_resume_instance", ResumeGuest),
    )
}
