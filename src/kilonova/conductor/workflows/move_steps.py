# SPDX-License-Identifier: Apache-2.0
"""Steps that several kinds of moves share, and their reply handlers."""

from dataclasses import replace
from functools import partial
from typing import Any

from kilonova.conductor.workflow_engine.effects import Completed, Effect, Failed, Gone, SendToAgent, Write
from kilonova.conductor.workflow_engine.run import Failure, Run, is_unreachable
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import sends, writes
from kilonova.conductor.workflow_engine.workflow import OnReply
from kilonova.conductor.workflows.endings import require_absent
from kilonova.conductor.workflows.moves import MoveFacts, guest_at_home, migration_of, source
from kilonova.conductor.workflows.network_steps import given_to_ports, rebind, rebind_anyway
from kilonova.db import instances, moves, pending_rollbacks, server_migrations
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import AbandonMove, ConfirmMove, MoveAway, ReturnHome, StepReply
from kilonova.model.image_properties import shutdown_timeout_s
from kilonova.model.server_migration import OPEN, MigrationStatus


def move_away(services: Services, run: Run[MoveFacts], *, destination: str | None = None) -> Effect:
    """Order the source of a move to shut the guest down and to keep the guest's disks.

    The image's properties may set the shutdown timeout.
    ``destination``: the host named in the order; None: the destination of the move; "": the disks are not moved.
    """
    with services.database.read() as connection:
        instance = instances.find(connection, run.instance_uuid)
    if instance is None:
        return Gone()
    timeout_s = shutdown_timeout_s(instance.image_properties)
    to = run.facts.host if destination is None else destination
    return SendToAgent(run.facts.source, MoveAway(run.step_id, run.instance_uuid, to, timeout_s))


def _switch(tx: Transaction, run: Run[MoveFacts]) -> None:
    moves.switch(tx, migration_of(tx, run))


#: Record the server at the destination.
switch = writes(_switch)
#: Order the destination to remove the guest that the move made there. An unreachable destination may run that guest, so
#: the workflow waits for the destination before the source starts its guest.
abandon = sends(AbandonMove)
#: Order the source to remove the guest that it keeps during the move.
drop_source = sends(ConfirmMove, to=source)


def bind_there(services: Services, run: Run[MoveFacts]) -> Effect:
    """Bind the ports of the server to the destination."""
    facts = run.facts
    profiles = given_to_ports(services, run, facts.profiles)
    return rebind(services, run, facts.host, profiles, before=facts.profiles_at_home, starts=facts.runs_there)


def bind_at_home(services: Services, run: Run[MoveFacts]) -> Effect:
    """Undo hook: bind the ports of the server to the source again, as far as the network service allows it."""
    return rebind_anyway(services, run, run.facts.source, run.facts.profiles_at_home)


def return_home(services: Services, run: Run[MoveFacts]) -> Effect:
    """Order the source to restore the guest as it was before the move."""
    return SendToAgent(run.facts.source, ReturnHome(run.step_id, guest_at_home(services, run), run.facts.runs))


def left_halfway(
    services: Services, run: Run[MoveFacts], reply: StepReply, *, drops_made: bool = False
) -> Write | None:
    """Return the write that records a pending rollback if the source has replied with an error; else None.

    ``drops_made``: the source must first remove the guest that a move on the same host made, and then restore its own
    guest.
    """
    facts = run.facts
    if reply.host != facts.source or reply.error is None:
        return None

    def write(tx: Transaction, run: Run[MoveFacts]) -> None:
        if is_unreachable(reply):
            require_absent(services, tx, facts.source)
        pending_rollbacks.note(tx, facts.source, migration_of(tx, run), drops_made=drops_made, runs=facts.runs)

    return write


def advance(status: MigrationStatus, **facts: Any) -> OnReply[MoveFacts]:
    """Return a reply handler that fails on an error, and else sets the migration's status and the given facts."""
    write: Write = partial(set_status, status=status)

    def on_reply(_services: Services, run: Run[MoveFacts], reply: StepReply) -> Effect:
        known = replace(run.facts, **facts) if facts else run.facts
        if reply.error is not None:
            return Failed(Failure.of(reply))
        return Completed(known, write, power_state=reply.power_state)

    return on_reply


def set_status(tx: Transaction, run: Run[MoveFacts], status: MigrationStatus) -> None:
    """Write the status of the migration."""
    server_migrations.set_status(tx, run.facts.migration, OPEN, status)
