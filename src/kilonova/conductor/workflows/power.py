# SPDX-License-Identifier: Apache-2.0
"""Start, stop and reboot: one message to the host, then the settled state.

A failure leaves a fault and no running task; a reboot after which the guest does not run leaves the instance in error,
unless its host cannot be reached, so that nobody knows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kilonova.conductor.services import Services
from kilonova.conductor.workflow import NOTHING, Effect, Ended, Interrupt, Run, SendToAgent, Step, Workflow
from kilonova.conductor.workflows.outcomes import ended_in, settled
from kilonova.messaging.messages import AgentMessage, RebootGuest, StartGuest, StepId, StopGuest
from kilonova.model.instance import PowerState
from kilonova.model.transitions import TRANSITIONS


@dataclass(frozen=True, slots=True)
class PowerFacts:
    """``host``: where the guest is."""

    host: str


def _failed(_services: Services, run: Run[PowerFacts]) -> Ended:
    transition = TRANSITIONS[run.row.kind]
    failure = run.failure
    if transition.failed is None or failure.unreachable or failure.power_state is None:
        return ended_in(run, None, failure.known_power_state)
    vm_state = transition.settled if failure.known_power_state is PowerState.RUNNING else transition.failed
    return ended_in(run, vm_state, failure.known_power_state)


def _workflow(
    kind: str, action: str, done: str, event: str, message: Callable[[StepId, str], AgentMessage]
) -> Workflow[PowerFacts]:
    def ask_host(_services: Services, run: Run[PowerFacts]) -> Effect:
        return SendToAgent(run.facts.host, message(run.step_id, run.instance_uuid))

    return Workflow(
        kind,
        PowerFacts,
        (Step("act", do=ask_host, undo=NOTHING, event=event),),
        TRANSITIONS[kind],
        settle=settled,
        unwound=_failed,
        action=action,
        done=done,
        overtaken_by=frozenset({Interrupt.DELETE, Interrupt.OTHER_ACTION}),
    )


def _hard_reboot(step: StepId, uuid: str) -> AgentMessage:
    return RebootGuest(step, uuid, hard=True)


POWER: Mapping[str, Workflow[PowerFacts]] = {
    workflow.kind: workflow
    for workflow in (
        _workflow("start", "start", "started", "compute_start_instance", StartGuest),
        _workflow("stop", "stop", "stopped", "compute_stop_instance", StopGuest),
        _workflow("reboot", "reboot", "rebooted", "compute_reboot_instance", RebootGuest),
        _workflow("hard-reboot", "reboot", "rebooted", "compute_reboot_instance", _hard_reboot),
    )
}
