# SPDX-License-Identifier: Apache-2.0
"""Reboots: soft ones shut the guest down in order, hard ones power it off and make it anew if it is gone.

::

    act ──▶ done
     └─ soft: the guest does not run ──┐
     └─ hard: the guest is gone     ───┴──▶ act-hard, with the description of the guest ──▶ done

A guest that does not run has nothing to shut down, so a soft reboot goes on as a hard one: that is how one ends whose
agent died between shutting the guest down and starting it.
"""

import logging
from dataclasses import replace

from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.workflow import (
    CALL_OFF,
    CALLED_OFF,
    Completed,
    Do,
    Effect,
    Ended,
    Failed,
    Failure,
    Interrupt,
    Run,
    SendToAgent,
    ServerGoneError,
    Step,
    Workflow,
    is_unreachable,
)
from kilonova.conductor.workflows.endings import ended_in, settled
from kilonova.conductor.workflows.guest_description import describe
from kilonova.conductor.workflows.power import PowerFacts
from kilonova.db import instances
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import RebootGuest, StepReply
from kilonova.model.instance import GuestSpec, PowerState, TaskState
from kilonova.model.transitions import TRANSITIONS

LOG = logging.getLogger(__name__)
_EVENT = "compute_reboot_instance"


def _soft(_services: Services, run: Run[PowerFacts]) -> Effect:
    message = RebootGuest(run.step_id, run.instance_uuid)
    return SendToAgent(run.facts.host, message, once={TaskState.REBOOT_STARTED: replace(message, begun=True)})


def _hard(_services: Services, run: Run[PowerFacts]) -> Effect:
    return _send_hard(run, None)


def _hard_or_anew(services: Services, run: Run[PowerFacts]) -> Effect:
    try:
        return _send_hard(run, describe(services, run, run.facts.host))
    except ServerGoneError:
        return _send_hard(run, None)


def _send_hard(run: Run[PowerFacts], guest: GuestSpec | None) -> Effect:
    message = RebootGuest(run.step_id, run.instance_uuid, hard=True, guest=guest)
    return SendToAgent(run.facts.host, message, once={TaskState.REBOOT_STARTED_HARD: replace(message, begun=True)})


def _rebooted(_services: Services, run: Run[PowerFacts], reply: StepReply) -> Effect:
    """What comes of the reply: a guest that runs is well, whatever the driver said."""
    runs = reply.power_state is PowerState.RUNNING
    if reply.error is None and not runs:
        return Completed()
    if reply.error is None:
        return Completed(final=True, power_state=reply.power_state)
    if is_unreachable(reply) or not runs:
        return Failed(Failure.of(reply))
    LOG.warning("Server %s runs, although its reboot failed: %s [%s]", run.instance_uuid, reply.error, run.request_id)

    def record(tx: Transaction) -> None:
        instances.record_fault(tx, run.instance_uuid, reply.as_fault())

    return Completed(write=record, final=True, power_state=reply.power_state)


def _failed(_services: Services, run: Run[PowerFacts]) -> Ended:
    power_state = run.failure.known_power_state
    vm_state = None if power_state is None else TRANSITIONS[run.row.kind].failed
    return ended_in(run, vm_state, power_state)


def _workflow(kind: str, do: Do[PowerFacts]) -> Workflow[PowerFacts]:
    hard = TaskState.REBOOT_PENDING_HARD
    return Workflow(
        kind,
        PowerFacts,
        (
            Step("act", do=do, undo=CALL_OFF, on_undone=CALLED_OFF, on_reply=_rebooted, event=_EVENT),
            Step(
                "act-hard",
                do=_hard_or_anew,
                undo=CALL_OFF,
                on_undone=CALLED_OFF,
                on_reply=_rebooted,
                shows=hard,
                event=_EVENT,
            ),
        ),
        TRANSITIONS[kind],
        settle=settled,
        unwound=_failed,
        action="reboot",
        done="rebooted",
        overtaken_by=frozenset({Interrupt.DELETE, Interrupt.OTHER_ACTION}),
    )


REBOOT, HARD_REBOOT = _workflow("reboot", _soft), _workflow("hard-reboot", _hard)
