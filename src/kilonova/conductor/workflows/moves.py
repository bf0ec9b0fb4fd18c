# SPDX-License-Identifier: Apache-2.0
"""Common parts of moves: facts, claiming a destination, undoing the claim, retry and failure."""

from collections.abc import Mapping
from dataclasses import field, replace

from kilonova.claims.moving import Moving
from kilonova.conductor.workflow_engine.effects import ClaimHost, Completed, Effect, Ended, Failed, Restarted, Unwound
from kilonova.conductor.workflow_engine.run import Failure, Interrupt, Run, ServerGoneError
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflows.endings import fail, settle
from kilonova.conductor.workflows.guest_description import find_server, kept_guest, new_guest
from kilonova.conductor.workflows.network_steps import PlugWait, demands
from kilonova.db import instance_networks, instances, moves, server_migrations
from kilonova.db.core.transaction import Transaction
from kilonova.errors import NotFound
from kilonova.model.instance import Fault, GuestSpec, Instance
from kilonova.model.network_info import NetworkInfo
from kilonova.model.port_profiles import PortProfiles, profiles_on
from kilonova.model.request_spec import RequestedNetwork, RequestSpec, StoredRequest
from kilonova.model.server_migration import MigrationStatus, MigrationType, MoveKind, ServerMigration
from kilonova.model.transitions import TRANSITIONS
from kilonova.network.ports import given_by_host
from kilonova.records import dataclass

#: Steps whose failure is due to the destination, so that the move may succeed with another destination.
AT_DESTINATION = frozenset({"bindings", "finish", "ports", "prepare", "spawn"})
#: Kind of workflow → migration status while no destination is claimed.
FIRST_STATUS: Mapping[str, MigrationStatus] = {
    "resize": MigrationStatus.PRE_MIGRATING,
    "migrate": MigrationStatus.PRE_MIGRATING,
    "live-migrate": MigrationStatus.ACCEPTED,
    "evacuate": MigrationStatus.ACCEPTED,
}


@dataclass(frozen=True, slots=True)
class MoveFacts:
    """Facts of a move. ``migration``: UUID of the migration. ``source``: the server's host before the move.

    ``destination``: the claimed host; None until claimed. ``requested``: the destination that the user asked for.
    ``forced``: the filters are bypassed. ``stays``: the source is a possible destination too.
    ``abandoned``: the move's result no longer belongs to the server, so only the source is cleaned up.
    ``runs``, ``paused``: state of the guest before the move. ``touched``: the guest was powered off for the move.
    ``tried``: destinations where the move failed. ``last_error``: error of the last of them.
    ``stops``: the guest is off after the move in any case.
    ``stranded``: the destination may have the guest but is unreachable. ``source_clean``: the source has removed its
    guest.
    ``networks``, ``plugging``, ``held``: as in ``network_steps.py``. ``vifs_there``: the interfaces of a guest that is
    migrated live, with their bindings to the destination.
    ``profiles``: what the destination gives to the ports; ``profiles_at_home``: what the source gives to them.
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
    abandoned: bool = False
    networks: bool = False
    plugging: PlugWait | None = None
    held: bool = False
    vifs_there: NetworkInfo = ()
    profiles: PortProfiles = field(default_factory=dict)
    profiles_at_home: PortProfiles = field(default_factory=dict)

    @property
    def runs_there(self) -> bool:
        """True if the guest runs after the move."""
        return self.runs and not self.stops

    @property
    def host(self) -> str:
        return self.destination or self.source


def source(facts: MoveFacts) -> str:
    """Return the source host of a move."""
    return facts.source


def load(services: Services, run: Run[MoveFacts]) -> tuple[Instance, StoredRequest, ServerMigration]:
    """Return the server of a move, its stored request and its migration. Raises: ServerGoneError."""
    with services.database.read() as connection:
        instance, request = find_server(connection, run.instance_uuid)
        try:
            return instance, request, server_migrations.get(connection, run.facts.migration)
        except NotFound as error:
            raise ServerGoneError(run.instance_uuid) from error


def migration_of(tx: Transaction, run: Run[MoveFacts]) -> ServerMigration:
    """Return the present migration record of a move. Raises: NotFound."""
    return server_migrations.get(tx.connection, run.facts.migration)


def guest_there(services: Services, run: Run[MoveFacts]) -> GuestSpec:
    """Return the description of the guest at the destination. Raises: ServerGoneError."""
    instance, request, migration = load(services, run)
    sized = replace(instance, flavor=migration.new_flavor)
    return new_guest(services, run.facts.host, sized, request, run.row.since)


def guest_at_home(services: Services, run: Run[MoveFacts]) -> GuestSpec:
    """Return the description of the guest at the source. Raises: ServerGoneError.

    Until the move is reverted, the migration is the consumer of the source's resources.
    """
    instance, request, migration = load(services, run)
    holder = migration.uuid if migration.is_claimed else None
    sized = replace(instance, flavor=migration.old_flavor)
    return kept_guest(services.database, sized, request, run.row.since, holder)


def claim_destination(services: Services, run: Run[MoveFacts], *, kind: MoveKind, becomes: MigrationStatus) -> Effect:
    """Return the effect that claims a destination and transfers the source's resources to the migration.

    ``kind``: the kind of move for the filters. ``becomes``: the migration's new status.
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
    networks, facts = _networks(services, run, spec)
    spec = replace(spec, request_id=run.request_id, networks=networks)
    if facts.forced:
        spec = replace(spec, requested_host=None, force_host=facts.requested)
    return ClaimHost(
        spec,
        request.group_uuid,
        lambda chosen: replace(facts, destination=chosen.host, profiles=profiles_on(networks, chosen.providers)),
        Moving(migration, TRANSITIONS[run.row.kind].shown[0], becomes),
        overtaken=Failed(Failure("The server was changed while a destination was sought.")),
        undone=False,  # after a refused claim, the undo of this step ends the migration
    )


def _networks(
    services: Services, run: Run[MoveFacts], spec: RequestSpec
) -> tuple[tuple[RequestedNetwork, ...], MoveFacts]:
    """Return what the ports require of a destination, and the facts with what the source gives to the ports."""
    facts = run.facts
    if not facts.networks:
        return (), facts
    with services.database.read() as connection:
        info = instance_networks.info_of(connection, run.instance_uuid)
    at_home = facts.profiles_at_home if facts.tried else given_by_host(info)
    return demands(services, info, spec), replace(facts, profiles_at_home=at_home)


def _of_present_flavor(services: Services, instance: Instance, migration: ServerMigration) -> ServerMigration:
    """Return a migration with the server's present flavor.

    If the move was requested while a resize was running, the resize may have changed the flavor or rolled it back
    since.
    """
    if migration.migration_type is MigrationType.RESIZE or migration.new_flavor == instance.flavor:
        return migration
    return services.database.write(lambda tx: server_migrations.set_flavor(tx, migration.uuid, instance.flavor))


def _uncleaned(services: Services, run: Run[MoveFacts]) -> frozenset[str]:
    """Return the hosts from which a server was evacuated and which have not removed its guest yet."""
    with services.database.read() as connection:
        moves_of_it = server_migrations.open_of(connection, [run.instance_uuid])
    return frozenset(each.source_host for each in moves_of_it if each.status is MigrationStatus.DONE)


def give_destination_back(services: Services, run: Run[MoveFacts]) -> Effect:
    """Undo the claim: the server gets the source's resources back; the migration ends, or waits for the next try."""
    status = _status(services, run)
    return Completed(write=lambda tx, run: moves.undo_claim(tx, migration_of(tx, run), status))


def _status(services: Services, run: Run[MoveFacts]) -> MigrationStatus:
    if next_try(services, run) is not None:
        return FIRST_STATUS[run.row.kind]
    return MigrationStatus.CANCELLED if run.interrupted is Interrupt.ABORT else MigrationStatus.ERROR


def next_try(services: Services, run: Run[MoveFacts]) -> MoveFacts | None:
    """Return the facts for a retry of the move on another host after its destination failed; None if there is no retry.

    A destination that the user requested has no alternative.
    """
    facts = run.facts
    at_destination = run.failure.step in AT_DESTINATION and facts.destination is not None
    if not at_destination or facts.stranded or run.interrupted is not None or facts.requested is not None:
        return None
    tried = (*facts.tried, facts.host)
    if run.failure.everywhere or len(tried) >= services.max_attempts:
        return None
    again = replace(facts, destination=None, plugging=None, held=False, vifs_there=(), profiles={})
    return replace(again, tried=tried, last_error=run.failure.message, touched=_is_touched(run))


def fault_of(run: Run[MoveFacts]) -> Fault:
    """Return the fault of a failed move.

    If no further destination was found, the fault includes the last host's error.
    """
    failure, last_error = run.failure, run.facts.last_error
    if failure.step == "claim" and last_error:
        failure = replace(failure, message=f"{failure.message} (after a failed move: {last_error})")
    return failure.as_fault()


def elsewhere(tx: Transaction, run: Run[MoveFacts]) -> None:
    """Set the server's task state back to the first task state of the move, for a retry with another destination.

    The present task state may be None, if the state was reset meanwhile.
    """
    shown = TRANSITIONS[run.row.kind].shown
    instances.change(tx, run.instance_uuid, expected_tasks={None, *shown}, task_state=shown[0])


# --- end of the workflow ----------------------------------------------------------------------------------------------


def came_to_nothing(services: Services, run: Run[MoveFacts]) -> Unwound:
    """Retry the move with another destination if the last one failed; else end it with the server on its source."""
    if run.interrupted not in {None, Interrupt.ABORT}:
        return Ended()
    again = next_try(services, run)
    if again is not None:
        return Restarted(again, elsewhere)
    return Ended(_stays)


def _stays(tx: Transaction, run: Run[MoveFacts]) -> None:
    """End a failed or aborted move with the server on its source.

    After a failure that touched the guest, the server gets the failure state of the state table.
    """
    if shows_its_move(tx, run) is None:
        return
    if run.interrupted is Interrupt.ABORT:
        settle(tx, run, None, None)
    else:  # the reported power state is ignored: it may be that of the destination, or older than the rollback
        fail(tx, run, TRANSITIONS[run.row.kind].failed if _is_touched(run) else None, None, fault_of(run))


def _is_touched(run: Run[MoveFacts]) -> bool:
    """Return True if the failed move may have changed the guest.

    If the move failed because a host was unreachable, no driver has failed, and the rollback has restored the guest.
    """
    return run.facts.touched and not run.failure.unreachable


def shows_its_move(tx: Transaction, run: Run[MoveFacts]) -> Instance | None:
    """Return the server of a move; None if it was deleted or another action has changed its task state."""
    server = instances.find(tx.connection, run.instance_uuid)
    return server if server is not None and server.task_state in TRANSITIONS[run.row.kind].shown else None
