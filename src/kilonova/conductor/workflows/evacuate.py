# SPDX-License-Identifier: Apache-2.0
"""Evacuation: a server whose host is down is made anew on another one, from its image.

::

    begin ──▶ claim ──▶ leave ──▶ spawn ──▶ clean-up ──▶ done (active or stopped)
                          │         └─ point of no return
                          └─ the server is recorded at the destination

The source is taken for dead, but may be alive: because it was only declared down, or because it comes back meanwhile.
So before anything is made at the destination, in the transaction that records the server there, the source either has
powered its guest off, or has no living agent. One that comes back later finds the record, and its guest has to go
before it takes any order (ADR 25). The migration keeps what the source gives the server until its agent has cleaned up.

A destination that cannot be reached while it makes the guest may run it. Then the server stays there, in error: its
host can be waited for, or declared down and left in turn.
"""

import logging
from dataclasses import replace
from functools import partial

from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import one_way, sends
from kilonova.conductor.workflow_engine.workflow import (
    NOTHING,
    Completed,
    Effect,
    Ended,
    Failed,
    Failure,
    Restarted,
    Run,
    SendToAgent,
    Step,
    Unwound,
    Workflow,
    complete_or_repeat,
    is_unreachable,
)
from kilonova.conductor.workflows.endings import fail, require_absent, settled
from kilonova.conductor.workflows.move_steps import left_halfway, move_away, set_status
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
from kilonova.db import moves
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import DestroyGuest, RebuildGuest, ReturnHome, StepReply
from kilonova.model.instance import PowerState, TaskState
from kilonova.model.server_migration import MigrationStatus, MoveKind
from kilonova.model.transitions import TRANSITIONS

LOG = logging.getLogger(__name__)
_OFF = {PowerState.NOSTATE, PowerState.SHUTDOWN, PowerState.CRASHED}


def _wake_source(services: Services, run: Run[MoveFacts]) -> Effect:
    """Have a source that is alive take its guest back as it was, unless the next destination is tried.

    A move or a snapshot that the evacuation interrupted was not undone there. So a source that was never left is asked
    as well: it takes back what it keeps for the move, and drops the copy of the disk.
    """
    facts = run.facts
    if facts.stranded or next_try(services, run) is not None:
        return Completed(durable=False)
    return SendToAgent(facts.source, ReturnHome(run.step_id, guest_at_home(services, run), facts.runs))


def _woken(services: Services, run: Run[MoveFacts], reply: StepReply) -> Effect:
    """The server is in error, and its host counted as dead before: what it could not do keeps nothing waiting.

    Its agent has it taken back when it starts next.
    """
    if not _was_left(run.facts):  # the migration was stored with the workflow, whose journal may have come no further
        return give_destination_back(services, run)
    if reply.error is not None:
        LOG.warning("Server %s stays off on host %s: %s", run.instance_uuid, reply.host, reply.error)
        return Completed(write=left_halfway(services, run, reply))
    return Completed(durable=False)


def _was_left(facts: MoveFacts) -> bool:
    return facts.destination is not None or bool(facts.tried)


def _give_back(services: Services, run: Run[MoveFacts]) -> Effect:
    """Record the server at its source again; where the destination may run its guest it stays recorded there."""
    if not run.facts.stranded:
        return give_destination_back(services, run)
    return Completed(write=_end_migration)


def _leave(services: Services, run: Run[MoveFacts]) -> Effect:
    """Have a source that is alive power its guest off and keep it. It is not moved: any host can do that."""
    return move_away(services, run, destination="")


def _left(services: Services, run: Run[MoveFacts], reply: StepReply) -> Effect:
    """Record the server at the destination, if the source has powered its guest off, or has nobody who could."""
    is_away = is_unreachable(reply)
    if reply.error is not None and not is_away:
        LOG.warning("Server %s: host %s: %s", run.instance_uuid, reply.host, reply.error)
        if reply.power_state not in _OFF:
            return Failed(Failure.of(reply))

    def leave(tx: Transaction, run: Run[MoveFacts]) -> None:
        if is_away:
            require_absent(services, tx, run.facts.source)
        moves.leave_source(tx, migration_of(tx, run))

    return Completed(write=leave)


def _spawn(services: Services, run: Run[MoveFacts]) -> Effect:
    facts = run.facts
    return SendToAgent(facts.host, RebuildGuest(run.step_id, guest_there(services, run), facts.runs_there))


def _destroyed(services: Services, run: Run[MoveFacts], reply: StepReply) -> Effect:
    """A destination that cannot be asked may have the guest: the server is stranded there."""
    if not is_unreachable(reply):
        return complete_or_repeat(services, run, reply)
    return Completed(replace(run.facts, stranded=True), lambda tx, _run: require_absent(services, tx, reply.host))


def _cleaned(services: Services, run: Run[MoveFacts], reply: StepReply) -> Effect:
    """A source that cannot clean up now does so when it comes back: the migration says so."""
    if reply.error is None:
        return Completed(replace(run.facts, source_clean=True))
    if not is_unreachable(reply):
        LOG.warning("Server %s left on host %s: %s", run.instance_uuid, reply.host, reply.error)
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
    """Try the next host, or leave the server in error, where it was or where it is stranded."""
    if run.interrupted is not None:
        return Ended()
    again = next_try(services, run)
    return Ended(_failed) if again is None else Restarted(again, elsewhere)


def _failed(tx: Transaction, run: Run[MoveFacts]) -> None:
    server = shows_its_move(tx, run)
    if server is not None:
        here = run.facts.destination if run.facts.stranded else run.facts.source
        fail(tx, run, TRANSITIONS["evacuate"].failed if server.host == here else None, None, fault_of(run))


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
        ),
        one_way("leave", _leave, on_reply=_left),
        Step(
            "spawn",
            do=_spawn,
            undo=sends(DestroyGuest),
            on_undone=_destroyed,
            shows=TaskState.REBUILD_SPAWNING,
            event="compute_rebuild_instance",
        ),
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
