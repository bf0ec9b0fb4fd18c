# SPDX-License-Identifier: Apache-2.0
"""What all moves have in common: claiming a destination, giving it back, and how a move comes to nothing."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from kilonova.claims.claimer import Job, Order
from kilonova.claims.moving import Moving
from kilonova.claims.placing import Chosen
from kilonova.conductor import story, turns
from kilonova.conductor.guest_description import guest_of, reserved_for
from kilonova.conductor.services import Services
from kilonova.conductor.workflow import (
    Completed,
    Effect,
    Ended,
    Failed,
    Failure,
    Gone,
    Interrupt,
    Journalled,
    Run,
    Workflow,
)
from kilonova.conductor.workflows.outcomes import ended_in
from kilonova.conductor.workflows.placing_errors import CannotPlaceError, refusals
from kilonova.db import instances, moves, request_specs, server_migrations
from kilonova.db.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import NotFound
from kilonova.messaging.messages import StepReply
from kilonova.model.instance import GuestSpec, Instance, PowerState, TaskState, VmState
from kilonova.model.request_spec import StoredRequest
from kilonova.model.server_migration import OPEN, MigrationStatus, MoveKind, ServerMigration
from kilonova.model.transitions import TRANSITIONS


@dataclass(frozen=True, slots=True)
class MoveFacts:
    """One move. ``migration``: its row. ``source``: where the guest is at first; ``destination``: None until claimed.

    ``requested``: the host that somebody wants it moved to, ``forced``: whatever the rules say of it.
    ``stays``: the source, too, comes into question.
    ``runs``, ``paused``: how the guest was when the move began. ``touched``: it was powered off, or its copying began.
    """

    migration: str
    source: str
    destination: str | None = None
    requested: str | None = None
    stays: bool = False
    runs: bool = True
    paused: bool = False
    touched: bool = False
    forced: bool = False

    @property
    def host(self) -> str:
        return self.destination or self.source

    @property
    def settled_state(self) -> VmState:
        """What the server is when the move is over."""
        return VmState.ACTIVE if self.runs else VmState.STOPPED


@dataclass(frozen=True, slots=True)
class Claiming:
    """How a kind of move claims: as ``kind`` for the rules, while the server has ``task``.

    ``becomes``: the status of the migration once there is a destination; ``shows``: the task from then on.
    ``next_step``: the step after the claim.
    """

    kind: MoveKind
    task: TaskState
    becomes: MigrationStatus
    shows: TaskState
    next_step: str


def load(services: Services, run: Run[MoveFacts]) -> tuple[Instance, StoredRequest, ServerMigration] | None:
    """Return the server, what was asked for it, and its migration; None when the server is gone."""
    with services.database.read() as connection:
        try:
            instance = instances.get(connection, run.instance_uuid)
            request = request_specs.get_many(connection, [instance])[instance.uuid]
            return instance, request, server_migrations.get(connection, run.facts.migration)
        except (NotFound, KeyError):
            return None


def guest_there(services: Services, run: Run[MoveFacts]) -> GuestSpec | None:
    """Return the guest as it is at the destination; None when the server is gone."""
    found = load(services, run)
    if found is None:
        return None
    instance, request, migration = found
    instance = replace(instance, flavor=migration.new_flavor)
    return guest_of(instance, request, reserved_for(services.database, instance, request), run.row.since)


def guest_at_home(services: Services, run: Run[MoveFacts]) -> GuestSpec | None:
    """Return the guest as it is at the source; None when the server is gone.

    As long as the move is not reverted, the migration holds the source.
    """
    found = load(services, run)
    if found is None:
        return None
    instance, request, migration = found
    instance = replace(instance, flavor=migration.old_flavor)
    holder = migration.uuid if migration.is_claimed else None
    return guest_of(instance, request, reserved_for(services.database, instance, request, holder), run.row.since)


def claim_destination(services: Services, run: Run[MoveFacts], workflow: Workflow[MoveFacts], how: Claiming) -> Effect:
    """Decide on a destination and claim it; the migration takes the source over in the same transaction."""
    found = load(services, run)
    if found is None:
        return Gone()
    _, request, migration = found
    facts = run.facts
    spec = request.spec.moving(
        how.kind,
        run.instance_uuid,
        leaving=() if facts.stays else (facts.source,),
        flavor=migration.new_flavor,
        host=facts.requested,
    )
    spec = replace(spec, request_id=run.request_id)
    if facts.forced:
        spec = replace(spec, requested_host=None, force_host=facts.requested)

    def at_host(chosen: Chosen) -> WorkflowRow:
        claimed = replace(facts, destination=chosen.host)
        return workflow.at(run, how.next_step, undoing=False, facts=claimed)

    placing = Moving(migration, how.task, how.becomes, how.shows, turns.event_of(workflow, run))
    order = Order(spec, (Job(run.instance_uuid, at_host),), request.group_uuid, placing)
    try:
        with refusals(run.request_id):
            placed = services.claimer.place(order)
    except CannotPlaceError as refused:
        return Failed(refused.failure)
    if not placed.workflows:
        return Failed(Failure("The server was changed while a destination was sought.", undone=True))
    (row,) = placed.workflows
    story.moves(run.instance_uuid, run.request_id, facts.source, workflow.run(row).facts.destination or "")
    return Journalled(row)


def give_destination_back(_services: Services, run: Run[MoveFacts]) -> Effect:
    """Undo the claim: the server has the source again, and the migration is over."""
    migration, status = run.facts.migration, _status(run)

    def give_back(tx: Transaction) -> None:
        moves.undo_claim(tx, server_migrations.get(tx.connection, migration), status)

    return Completed(write=give_back)


def _status(run: Run[MoveFacts]) -> MigrationStatus:
    return MigrationStatus.CANCELLED if run.interrupted is Interrupt.ABORT else MigrationStatus.ERROR


def came_to_nothing(_services: Services, run: Run[MoveFacts]) -> Ended:
    """The server is where it was. One whose guest was touched is in error, where the table says so."""
    transition, status, migration = TRANSITIONS[run.row.kind], _status(run), run.facts.migration
    if run.interrupted is Interrupt.ABORT:

        def settle(tx: Transaction) -> None:
            instances.change(tx, run.instance_uuid, expected_tasks=transition.shown, task_state=None, progress=0)

        last = Ended(settle, failed=True)
    else:
        # The failure may tell of the guest on the other host, or before it was taken back.
        last = ended_in(run, transition.failed if run.facts.touched else None, power_state=None)

    def end(tx: Transaction) -> None:
        server = instances.find(tx.connection, run.instance_uuid)
        if callable(last.write) and server is not None and server.task_state in transition.shown:
            last.write(tx)  # else somebody else has changed it, and says what it does now
        moves.undo_claim(tx, server_migrations.get(tx.connection, migration), status)

    return Ended(end, failed=True)


class _HasMigration(Protocol):
    @property
    def migration(self) -> str: ...


F = TypeVar("F", bound=_HasMigration)


def status_write(run: Run[F], status: MigrationStatus) -> Callable[[Transaction], None]:
    """Return the write that says how far the migration is."""
    migration = run.facts.migration
    return lambda tx: _set_status(tx, migration, status)


def _set_status(tx: Transaction, migration: str, status: MigrationStatus) -> None:
    server_migrations.set_status(tx, migration, OPEN, status)


def advance(status: MigrationStatus | None = None, **facts: Any) -> Callable[[Services, Run[Any], StepReply], Effect]:
    """Return what completes a step whose agent succeeded: the migration gets a status, the facts these values."""

    def on_reply(_services: Services, run: Run[Any], reply: StepReply) -> Effect:
        known = replace(run.facts, **facts) if facts else run.facts
        if reply.error is not None:
            return Failed(Failure.of(reply))
        write = None if status is None else status_write(run, status)
        return Completed(known, write, power_state=reply.power_state)

    return on_reply


def settled_as(run: Run[Any], tx: Transaction, vm_state: VmState | None, power_state: PowerState | None) -> None:
    """Write the state in which a move leaves its server."""
    values: dict[str, Any] = {"task_state": None, "progress": 0}
    if vm_state is not None:
        values["vm_state"] = vm_state
    if power_state is not None:
        values["power_state"] = power_state
    shown = {None, *TRANSITIONS[run.row.kind].shown}
    instances.change(tx, run.instance_uuid, expected_tasks=shown, **values)
