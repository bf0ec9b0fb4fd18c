# SPDX-License-Identifier: Apache-2.0
"""What moves have in common: its facts, claiming a destination and giving it back, coming to nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kilonova.claims.moving import Moving
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.workflow import (
    ClaimHost,
    Completed,
    Effect,
    Ended,
    Failed,
    Failure,
    Interrupt,
    Restarted,
    Run,
    ServerGoneError,
    Unwound,
)
from kilonova.conductor.workflows.endings import fail, settle
from kilonova.conductor.workflows.guest_description import find_server, kept_guest, new_guest
from kilonova.db import instances, moves, server_migrations
from kilonova.db.core.transaction import Transaction
from kilonova.errors import NotFound
from kilonova.model.instance import Fault, GuestSpec, Instance
from kilonova.model.request_spec import StoredRequest
from kilonova.model.server_migration import MigrationStatus, MigrationType, MoveKind, ServerMigration
from kilonova.model.transitions import TRANSITIONS

#: Steps at which the destination fails, and another host may not.
AT_DESTINATION = frozenset({"finish", "prepare", "spawn"})
#: Of a migration that waits for its destination, by kind of workflow.
FIRST_STATUS: Mapping[str, MigrationStatus] = {
    "resize": MigrationStatus.PRE_MIGRATING,
    "migrate": MigrationStatus.PRE_MIGRATING,
    "live-migrate": MigrationStatus.ACCEPTED,
    "evacuate": MigrationStatus.ACCEPTED,
}


@dataclass(frozen=True, slots=True)
class MoveFacts:
    """One move. ``migration``: its row. ``source``: where the guest is at first; ``destination``: None until claimed.

    ``requested``: the host that somebody wants it moved to, ``forced``: whatever the rules say of it.
    ``stays``: the source, too, comes into question.
    ``forsaken``: the server is not what the move made of it any more, so that only the source is given up.
    ``runs``, ``paused``: how the guest was when the move began. ``touched``: it was powered off, or its copying began.
    ``tried``: hosts that have failed at it, ``last_error``: the last of them.
    ``stops``: the guest is off afterwards, however it was.
    ``stranded``: the destination may have the guest and cannot be asked. ``source_clean``: the source has none now.
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
    tried: tuple[str, ...] = ()
    stops: bool = False
    stranded: bool = False
    source_clean: bool = False
    last_error: str = ""
    forsaken: bool = False

    @property
    def runs_there(self) -> bool:
        """Whether the guest runs when the move is over."""
        return self.runs and not self.stops

    @property
    def host(self) -> str:
        return self.destination or self.source


def source(facts: MoveFacts) -> str:
    """Return where messages go that are for the source."""
    return facts.source


def load(services: Services, run: Run[MoveFacts]) -> tuple[Instance, StoredRequest, ServerMigration]:
    """Return the server, what was asked for it, and its migration. Raises: ServerGoneError."""
    with services.database.read() as connection:
        instance, request = find_server(connection, run.instance_uuid)
        try:
            return instance, request, server_migrations.get(connection, run.facts.migration)
        except NotFound as error:
            raise ServerGoneError(run.instance_uuid) from error


def migration_of(tx: Transaction, run: Run[MoveFacts]) -> ServerMigration:
    """Return the migration of a move as it is now. Raises: NotFound."""
    return server_migrations.get(tx.connection, run.facts.migration)


def guest_there(services: Services, run: Run[MoveFacts]) -> GuestSpec:
    """Return the guest as it is at the destination. Raises: ServerGoneError."""
    instance, request, migration = load(services, run)
    sized = replace(instance, flavor=migration.new_flavor)
    return new_guest(services, run.facts.host, sized, request, run.row.since)


def guest_at_home(services: Services, run: Run[MoveFacts]) -> GuestSpec:
    """Return the guest as it is at the source. Raises: ServerGoneError.

    As long as the move is not reverted, the migration holds the source.
    """
    instance, request, migration = load(services, run)
    holder = migration.uuid if migration.is_claimed else None
    sized = replace(instance, flavor=migration.old_flavor)
    return kept_guest(services.database, sized, request, run.row.since, holder)


def claim_destination(services: Services, run: Run[MoveFacts], *, kind: MoveKind, becomes: MigrationStatus) -> Effect:
    """Claim a destination; the migration takes the source over in the same transaction, and ``becomes`` this.

    ``kind``: for the rules.
    """
    instance, request, migration = load(services, run)
    migration = _of_present_flavor(services, instance, migration)
    facts = run.facts
    spec = request.spec.moving(
        kind,
        run.instance_uuid,
        leaving={*facts.tried, *_uncleaned(services, run), *(() if facts.stays else (facts.source,))},
        flavor=migration.new_flavor,
        host=facts.requested,
    )
    spec = replace(spec, request_id=run.request_id)
    if facts.forced:
        spec = replace(spec, requested_host=None, force_host=facts.requested)
    return ClaimHost(
        spec,
        request.group_uuid,
        lambda chosen: replace(facts, destination=chosen.host),
        Moving(migration, TRANSITIONS[run.row.kind].shown[0], becomes),
        overtaken=Failed(Failure("The server was changed while a destination was sought.")),
        undone=False,  # the undo ends the migration
    )


def _of_present_flavor(services: Services, instance: Instance, migration: ServerMigration) -> ServerMigration:
    """Return a migration with the flavor that its server has and keeps: it was asked for while a resize was under way.

    That has been undone since, or has ended.
    """
    if migration.migration_type is MigrationType.RESIZE or migration.new_flavor == instance.flavor:
        return migration
    return services.database.write(lambda tx: server_migrations.set_flavor(tx, migration.uuid, instance.flavor))


def _uncleaned(services: Services, run: Run[MoveFacts]) -> frozenset[str]:
    """Return the hosts that a server left when they were dead, and that have yet to remove what they had of it."""
    with services.database.read() as connection:
        moves_of_it = server_migrations.open_of(connection, [run.instance_uuid])
    return frozenset(each.source_host for each in moves_of_it if each.status is MigrationStatus.DONE)


def give_destination_back(services: Services, run: Run[MoveFacts]) -> Effect:
    """Undo the claim: the server has the source again; the migration is over, or waits for the next host."""
    status = _status(services, run)
    return Completed(write=lambda tx, run: moves.undo_claim(tx, migration_of(tx, run), status))


def _status(services: Services, run: Run[MoveFacts]) -> MigrationStatus:
    if next_try(services, run) is not None:
        return FIRST_STATUS[run.row.kind]
    return MigrationStatus.CANCELLED if run.interrupted is Interrupt.ABORT else MigrationStatus.ERROR


def next_try(services: Services, run: Run[MoveFacts]) -> MoveFacts | None:
    """Return with which facts a move that its destination failed at begins anew, on another host; None if it does not.

    A host that somebody has asked for is the only one that will do.
    """
    facts = run.facts
    at_destination = run.failure.step in AT_DESTINATION and facts.destination is not None
    if not at_destination or facts.stranded or run.interrupted is not None or facts.requested is not None:
        return None
    tried = (*facts.tried, facts.host)
    if len(tried) >= services.max_attempts:
        return None
    return replace(facts, destination=None, tried=tried, last_error=run.failure.message)


def fault_of(run: Run[MoveFacts]) -> Fault:
    """Return why a move has come to nothing, with what was wrong with the last destination where there is no next."""
    failure, last_error = run.failure, run.facts.last_error
    if failure.step == "claim" and last_error:
        failure = replace(failure, message=f"{failure.message} (after a failed move: {last_error})")
    return failure.as_fault()


def elsewhere(tx: Transaction, run: Run[MoveFacts]) -> None:
    """Write with what a move begins anew: the server shows its first task again.

    It may show none, since its state was reset meanwhile.
    """
    shown = TRANSITIONS[run.row.kind].shown
    instances.change(tx, run.instance_uuid, expected_tasks={None, *shown}, task_state=shown[0])


# --- how it ends ------------------------------------------------------------------------------------------------------


def came_to_nothing(services: Services, run: Run[MoveFacts]) -> Unwound:
    """Try the next host, if the destination has failed; else the server is where it was."""
    if run.interrupted not in {None, Interrupt.ABORT}:
        return Ended()
    again = next_try(services, run)
    if again is not None:
        return Restarted(again, elsewhere)
    return Ended(_stays)


def _stays(tx: Transaction, run: Run[MoveFacts]) -> None:
    """Write that a server is where it was. One whose guest was touched is in error, where the table says so."""
    if shows_its_move(tx, run) is None:
        return
    if run.interrupted is Interrupt.ABORT:
        settle(tx, run, None, None)
    else:  # the failure may tell of the guest on the other host, or before it was taken back
        fail(tx, run, TRANSITIONS[run.row.kind].failed if run.facts.touched else None, None, fault_of(run))


def shows_its_move(tx: Transaction, run: Run[MoveFacts]) -> Instance | None:
    """Return the server of a move; None where somebody else has changed it, and says what it does now."""
    server = instances.find(tx.connection, run.instance_uuid)
    return server if server is not None and server.task_state in TRANSITIONS[run.row.kind].shown else None
