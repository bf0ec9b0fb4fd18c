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
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from kilonova.conductor.workflow_engine.services import Services
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
    Write,
    complete_or_repeat,
    is_unreachable,
)
from kilonova.conductor.workflows.endings import fail, require_absent, settle, settled_state
from kilonova.conductor.workflows.move_steps import left_halfway, move_away
from kilonova.conductor.workflows.moves import (
    MoveFacts,
    claim_destination,
    elsewhere,
    fault_of,
    give_destination_back,
    guest_at_home,
    guest_there,
    next_try,
)
from kilonova.db import instances, moves, server_migrations
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import DestroyGuest, RebuildGuest, ReturnHome, StepReply
from kilonova.model.instance import PowerState, TaskState
from kilonova.model.server_migration import OPEN, MigrationStatus, MoveKind
from kilonova.model.transitions import TRANSITIONS

LOG = logging.getLogger(__name__)
_OFF = {PowerState.NOSTATE, PowerState.SHUTDOWN, PowerState.CRASHED}


def _begin(_services: Services, _run: Run[MoveFacts]) -> Effect:
    """Do nothing; what is undone here is done last of all on the way back."""
    return Completed(durable=False)


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
    return Completed(write=_done(run))


def _leave(services: Services, run: Run[MoveFacts]) -> Effect:
    """Have a source that is alive power its guest off and keep it. It is not moved: any host can do that."""
    return move_away(services, run, destination="")


def _left(services: Services, run: Run[MoveFacts], reply: StepReply) -> Effect:
    """Record the server at the destination, if the source has powered its guest off, or has nobody who could."""
    facts, is_away = run.facts, is_unreachable(reply)
    if reply.error is not None and not is_away:
        LOG.warning("Server %s: host %s: %s", run.instance_uuid, reply.host, reply.error)
        if reply.power_state not in _OFF:
            return Failed(Failure.of(reply))

    def write(tx: Transaction) -> None:
        if is_away:
            require_absent(services, tx, facts.source)
        moves.leave_source(tx, server_migrations.get(tx.connection, facts.migration))

    return Completed(write=write)


def _spawn(services: Services, run: Run[MoveFacts]) -> Effect:
    facts = run.facts
    return SendToAgent(facts.host, RebuildGuest(run.step_id, guest_there(services, run), facts.runs_there))


def _destroy(_services: Services, run: Run[MoveFacts]) -> Effect:
    """Have the destination remove what it has made."""
    return SendToAgent(run.facts.host, DestroyGuest(run.step_id, run.instance_uuid))


def _destroyed(services: Services, run: Run[MoveFacts], reply: StepReply) -> Effect:
    """A destination that cannot be asked may have the guest: the server is stranded there."""
    if not is_unreachable(reply):
        return complete_or_repeat(services, run, reply)
    host = run.facts.host
    return Completed(replace(run.facts, stranded=True), lambda tx: require_absent(services, tx, host))


def _clean_up(_services: Services, run: Run[MoveFacts]) -> Effect:
    return SendToAgent(run.facts.source, DestroyGuest(run.step_id, run.instance_uuid))


def _cleaned(services: Services, run: Run[MoveFacts], reply: StepReply) -> Effect:
    """A source that cannot clean up now does so when it comes back: the migration says so."""
    if reply.error is None:
        return Completed(replace(run.facts, source_clean=True))
    if not is_unreachable(reply):
        LOG.warning("Server %s left on host %s: %s", run.instance_uuid, reply.host, reply.error)
        return Completed()
    return Completed(write=lambda tx: require_absent(services, tx, run.facts.source))


def _done(run: Run[MoveFacts]) -> Callable[[Transaction], object]:
    return lambda tx: server_migrations.set_status(tx, run.facts.migration, OPEN, MigrationStatus.DONE)


def _settle(_services: Services, run: Run[MoveFacts], _power_state: PowerState | None) -> Write:
    facts, done = run.facts, _done(run)
    power_state = PowerState.RUNNING if facts.runs_there else PowerState.SHUTDOWN

    def write(tx: Transaction) -> None:
        settle(tx, run, settled_state(run, otherwise=not facts.runs_there), power_state)
        done(tx)
        if facts.source_clean:
            moves.clean_source(tx, server_migrations.get(tx.connection, facts.migration))

    return write


def _unwound(services: Services, run: Run[MoveFacts]) -> Unwound:
    """Try the next host, or leave the server in error, where it was or where it is stranded."""
    if run.interrupted is not None:
        return Ended()
    again = next_try(services, run)
    if again is not None:
        return Restarted(again, elsewhere(run))
    facts, transition = run.facts, TRANSITIONS["evacuate"]
    here = facts.destination if facts.stranded else facts.source

    def end(tx: Transaction) -> None:
        server = instances.find(tx.connection, run.instance_uuid)
        if server is None or server.task_state not in transition.shown:
            return  # somebody else has changed it, and says what it does now
        fail(tx, run, transition.failed if server.host == here else None, None, fault_of(run))

    return Ended(end)


EVACUATE = Workflow(
    "evacuate",
    MoveFacts,
    (
        Step("begin", do=_begin, undo=_wake_source, on_undone=_woken),
        Step(
            "claim",
            do=partial(claim_destination, kind=MoveKind.EVACUATE, becomes=MigrationStatus.PRE_MIGRATING),
            undo=_give_back,
            event="rebuild_server",
        ),
        Step("leave", do=_leave, undo=NOTHING, on_reply=_left),
        Step(
            "spawn",
            do=_spawn,
            undo=_destroy,
            on_undone=_destroyed,
            shows=TaskState.REBUILD_SPAWNING,
            event="compute_rebuild_instance",
        ),
        Step("clean-up", do=_clean_up, undo=NOTHING, on_reply=_cleaned),
    ),
    TRANSITIONS["evacuate"],
    settle=_settle,
    unwound=_unwound,
    action="evacuate",
    done="evacuated",
    point_of_no_return="spawn",
    leaves_host=True,
    is_move=True,
)
