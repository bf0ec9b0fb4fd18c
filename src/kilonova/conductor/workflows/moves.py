# SPDX-License-Identifier: Apache-2.0
"""What moves have in common: its facts, claiming a destination and giving it back, coming to nothing."""

from dataclasses import dataclass, replace

from kilonova.claims.claimer import Job, Order
from kilonova.claims.moving import Moving
from kilonova.claims.placing import Chosen
from kilonova.conductor import story, turns
from kilonova.conductor.guest_description import config_drive_for, guest_of, image_data_for, reserved_for
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
from kilonova.conductor.workflows.outcomes import fail, settle
from kilonova.conductor.workflows.placing_errors import CannotPlaceError, refusals
from kilonova.db import instances, moves, request_specs, server_migrations
from kilonova.db.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import NotFound
from kilonova.model.instance import GuestSpec, Instance, TaskState, VmState
from kilonova.model.request_spec import StoredRequest
from kilonova.model.server_migration import MigrationStatus, MoveKind, ServerMigration
from kilonova.model.transitions import TRANSITIONS


@dataclass(frozen=True, slots=True)
class MoveFacts:
    """One move. ``migration``: its row. ``source``: where the guest is at first; ``destination``: None until claimed.

    ``requested``: the host that somebody wants it moved to, ``forced``: whatever the rules say of it.
    ``stays``: the source, too, comes into question.
    ``forsaken``: the server is not what the move made of it any more, so that only the source is given up.
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
    forsaken: bool = False

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
    reserved = reserved_for(services.database, instance, request)
    host = run.facts.host
    image_data, drive = image_data_for(services, host, request), config_drive_for(services, host, instance, request)
    return guest_of(instance, request, reserved, run.row.since, image_data, drive)


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
        return Failed(replace(refused.failure, undone=False))  # its undo ends the migration
    if not placed.workflows:
        return Failed(Failure("The server was changed while a destination was sought."))
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


# --- how it ends ------------------------------------------------------------------------------------------------------


def came_to_nothing(_services: Services, run: Run[MoveFacts]) -> Ended:
    """The server is where it was. One whose guest was touched is in error, where the table says so."""
    transition = TRANSITIONS[run.row.kind]
    if run.interrupted not in {None, Interrupt.ABORT}:
        return Ended()

    def end(tx: Transaction) -> None:
        server = instances.find(tx.connection, run.instance_uuid)
        if server is None or server.task_state not in transition.shown:
            return  # somebody else has changed it, and says what it does now
        if run.interrupted is Interrupt.ABORT:
            settle(tx, run, None, None)
        else:  # the failure may tell of the guest on the other host, or before it was taken back
            fail(tx, run, transition.failed if run.facts.touched else None, None)

    return Ended(end)
