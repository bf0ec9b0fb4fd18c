# SPDX-License-Identifier: Apache-2.0
"""Evacuation: the host of a server is down, so rebuild the server from its image on another host.

::

    begin ──▶ claim ──▶ leave ──▶ ports ──▶ spawn ──▶ plugged ──▶ resume ──▶ clean-up ──▶ done (active or stopped)
                          │                   └─ point of no return
                          └─ the server is recorded at the destination

The source counts as dead but may be alive, for example if it was only forced down or returns meanwhile. So the
transaction that records the server at the destination requires that the source has powered its guest off or has no live
agent. A source that returns later finds the record and removes its guest before it accepts any order (ADR 25). The
migration holds the server's resources on the source until the source's agent has cleaned up.

A destination that becomes unreachable during the spawn may run the guest. Then the workflow waits until the destination
returns, or is declared down and evacuated in turn.
"""

import logging
from dataclasses import replace
from functools import partial

from kilonova.conductor.workflow_engine.effects import Completed, Effect, Ended, Failed, Restarted, SendToAgent, Unwound
from kilonova.conductor.workflow_engine.run import Failure, Interrupt, Run, is_unreachable
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import one_way, sends
from kilonova.conductor.workflow_engine.workflow import NOTHING, Step, Workflow, complete_or_repeat
from kilonova.conductor.workflows.endings import fail, require_absent, settled
from kilonova.conductor.workflows.move_steps import bind_at_home, bind_there, left_halfway, move_away, set_status
from kilonova.conductor.workflows.moves import (
    MoveFacts,
    claim_destination,
    elsewhere,
    fault_of,
    give_destination_back,
    guest_at_home,
    guest_there,
    migration_of,
    next_try,
    shows_its_move,
    source,
)
from kilonova.conductor.workflows.network_steps import (
    guest_made,
    has_networks,
    held,
    plugged_step,
    ports_step,
    resume_step,
)
from kilonova.db import moves
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import DestroyGuest, RebuildGuest, ReturnHome, StepReply
from kilonova.model.instance import PowerState, TaskState
from kilonova.model.server_migration import MigrationStatus, MoveKind
from kilonova.model.transitions import TRANSITIONS

LOG = logging.getLogger(__name__)
_OFF = {PowerState.NOSTATE, PowerState.SHUTDOWN, PowerState.CRASHED}


def _wake_source(services: Services, run: Run[MoveFacts]) -> Effect:
    """Order the source, if it is alive, to restore its guest, unless the next destination is tried.

    An earlier move or snapshot that the evacuation interrupted was not undone on the source. So the order is sent even
    if this evacuation has not begun on the source: the order restores the guest that the source keeps for the move, and
    removes the snapshot's copy of the disk.
    """
    facts = run.facts
    if facts.stranded or next_try(services, run) is not None:
        return Completed(durable=False)
    return SendToAgent(facts.source, ReturnHome(run.step_id, guest_at_home(services, run), facts.runs))


def _woken(services: Services, run: Run[MoveFacts], reply: StepReply) -> Effect:
    """Reply handler of ``ReturnHome``. The undo step completes even if the source cannot restore the guest.

    If the source, which was declared down, cannot do so, a pending rollback is recorded. The source's agent executes
    the rollback at its next start.
    """
    if not _was_left(run.facts):  # no destination was claimed, but the migration must get its final status
        return give_destination_back(services, run)
    if reply.error is not None:
        LOG.warning("Server %s stays powered off on host %s: %s", run.instance_uuid, reply.host, reply.error)
        return Completed(write=left_halfway(services, run, reply))
    return Completed(durable=False)


def _was_left(facts: MoveFacts) -> bool:
    return facts.destination is not None or bool(facts.tried)


def _give_back(services: Services, run: Run[MoveFacts]) -> Effect:
    """Record the server at its source again, or leave it at a destination that may run its guest."""
    if not run.facts.stranded:
        return give_destination_back(services, run)
    return Completed(write=_end_migration)


def _leave(services: Services, run: Run[MoveFacts]) -> Effect:
    """Order the source, if it is alive, to power the guest off and keep it.

    The destination in the order is empty, because the disk is not moved; so any host can execute the order.
    """
    return move_away(services, run, destination="")


def _left(services: Services, run: Run[MoveFacts], reply: StepReply) -> Effect:
    """Record the server at the destination, if the source has powered its guest off or is unreachable."""
    is_away = is_unreachable(reply)
    if reply.error is not None and not is_away:
        LOG.warning("Shutdown of guest of server %s on host %s failed: %s", run.instance_uuid, reply.host, reply.error)
        if reply.power_state not in _OFF:
            return Failed(Failure.of(reply))

    def leave(tx: Transaction, run: Run[MoveFacts]) -> None:
        if is_away:
            require_absent(services, tx, run.facts.source)
        moves.leave_source(tx, migration_of(tx, run))

    return Completed(write=leave)


def _spawn(services: Services, run: Run[MoveFacts]) -> Effect:
    facts = run.facts
    guest = held(guest_there(services, run), facts)
    return SendToAgent(facts.host, RebuildGuest(run.step_id, guest, facts.runs_there))


def _bind_back(services: Services, run: Run[MoveFacts]) -> Effect:
    """Bind the ports to the source again, unless the server stays at a destination that may run its guest."""
    return Completed(durable=False) if run.facts.stranded else bind_at_home(services, run)


def _destroyed(services: Services, run: Run[MoveFacts], reply: StepReply) -> Effect:
    """Reply handler of the undo of the spawn. An unreachable destination may run the guest, so wait for it.

    If the server is to be evacuated from that destination in turn, leave the server there instead.
    Raises: UndoFailedError, HostAwayError.
    """
    if not is_unreachable(reply) or run.interrupt is not Interrupt.EVACUATE:
        return complete_or_repeat(services, run, reply)
    return Completed(replace(run.facts, stranded=True), lambda tx, _run: require_absent(services, tx, reply.host))


def _cleaned(services: Services, run: Run[MoveFacts], reply: StepReply) -> Effect:
    """Complete even if the source cannot clean up: the open migration makes the source do so when it returns."""
    if reply.error is None:
        return Completed(replace(run.facts, source_clean=True))
    if not is_unreachable(reply):
        LOG.warning("Guest of server %s is left on host %s: %s", run.instance_uuid, reply.host, reply.error)
        return Completed()
    return Completed(write=lambda tx, run: require_absent(services, tx, run.facts.source))


def _end_migration(tx: Transaction, run: Run[MoveFacts]) -> None:
    set_status(tx, run, MigrationStatus.DONE)


def _evacuated(tx: Transaction, run: Run[MoveFacts], _power_state: PowerState | None) -> None:
    facts = run.facts
    settled(tx, run, PowerState.RUNNING if facts.runs_there else PowerState.SHUTDOWN, otherwise=not facts.runs_there)
    _end_migration(tx, run)
    if facts.source_clean:
        moves.clean_source(tx, migration_of(tx, run))


def _unwound(services: Services, run: Run[MoveFacts]) -> Unwound:
    """Retry the evacuation with the next destination, or leave the server in error on its source."""
    if run.interrupted is not None:
        return Ended()
    again = next_try(services, run)
    return Ended(_failed) if again is None else Restarted(again, elsewhere)


def _failed(tx: Transaction, run: Run[MoveFacts]) -> None:
    server = shows_its_move(tx, run)
    if server is not None:
        failed = TRANSITIONS["evacuate"].failed if server.host == run.facts.source else None
        fail(tx, run, failed, None, fault_of(run))


_EVENT = "compute_rebuild_instance"
EVACUATE = Workflow(
    "evacuate",
    MoveFacts,
    (
        Step("begin", do=NOTHING, undo=_wake_source, on_undone=_woken),
        Step(
            "claim",
            do=partial(claim_destination, kind=MoveKind.EVACUATE, becomes=MigrationStatus.PRE_MIGRATING),
            undo=_give_back,
            event="rebuild_server",
            blocking=has_networks,  # asks the network service what the ports require
        ),
        one_way("leave", _leave, on_reply=_left, event=_EVENT),
        ports_step(bind_there, _bind_back, event=_EVENT),
        Step(
            "spawn",
            do=_spawn,
            undo=sends(DestroyGuest),
            on_reply=guest_made,
            on_undone=_destroyed,
            shows=TaskState.REBUILD_SPAWNING,
            event=_EVENT,
            repeats=True,
        ),
        plugged_step(_EVENT, may_fail=False),
        resume_step(_EVENT),
        one_way("clean-up", sends(DestroyGuest, to=source), on_reply=_cleaned),
    ),
    TRANSITIONS["evacuate"],
    settle=_evacuated,
    unwound=_unwound,
    action="evacuate",
    done="evacuated",
    point_of_no_return="spawn",
    leaves_host=True,
    is_move=True,
)
