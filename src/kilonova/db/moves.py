# SPDX-License-Identifier: Apache-2.0
"""Resources of a server during a move (ADR 19). Each function is part of one transaction and idempotent.

::

    begin ──▶ claim (hand_sources_over + the destination) ──▶ switch ──▶ confirm      the server keeps the destination
                   │ undo_claim                                  │ revert
                   ▼                                             ▼
                 the server has only the source again

After the claim, the uuid of the migration holds the allocations, NUMA cells and PCI devices of the source, and the
server holds those of the destination. The server group counts the server on both hosts. The quota usage of the server
is that of the larger of both flavors.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from kilonova.db import (
    allocations,
    flavors,
    group_guards,
    host_devices,
    instances,
    pending_rollbacks,
    quotas,
    server_migrations,
)
from kilonova.db.consumers import INSTANCE, MIGRATION
from kilonova.db.core import tables as t
from kilonova.db.core.prepared import PreparedUpdate
from kilonova.db.core.transaction import Transaction
from kilonova.db.mirror_source import other_side_value
from kilonova.errors import ConcurrentUpdate, NotFound, OverQuota
from kilonova.model.quota import Limits, QuotaRequest, Usage
from kilonova.model.server_migration import OPEN, MigrationStatus, MigrationType, ServerMigration

_I = t.instances.c
_PUT = PreparedUpdate(t.instances, _I.uuid == sa.bindparam("of"), _I.deleted.is_(False))
#: Type of a move → status of its migration after success.
_CONFIRMED = {
    MigrationType.RESIZE: MigrationStatus.CONFIRMED,
    MigrationType.MIGRATION: MigrationStatus.CONFIRMED,
    MigrationType.LIVE_MIGRATION: MigrationStatus.COMPLETED,
    MigrationType.EVACUATION: MigrationStatus.COMPLETED,
}
#: Final status of a migration if its server is deleted after the server arrived at the destination.
_ENDED_BY_DELETE = {
    MigrationStatus.FINISHED: MigrationStatus.CONFIRMED,
    MigrationStatus.DONE: MigrationStatus.COMPLETED,
}


def begin(
    tx: Transaction, migration: ServerMigration, configured: Limits, limits: Limits | None = None
) -> ServerMigration:
    """Store a new migration and return it with its id. The growth from old to new flavor is counted against quotas.

    ``configured``: limits of the configuration, which limits in the database override. ``limits``: the limits in force
    if Keystone keeps them (unified limits), otherwise None. Raises: OverQuota.
    """
    growth = Usage.of(migration.new_flavor).beyond(Usage.of(migration.old_flavor))
    if growth != Usage():
        owner = _owner(tx, migration.instance_uuid)
        (granted,) = quotas.take(tx, [QuotaRequest(*owner, growth, 1, 1, limits=limits)], configured)
        if isinstance(granted, OverQuota):
            raise granted
    return server_migrations.insert(tx, migration)


def hand_source_over(tx: Transaction, migration: ServerMigration) -> None:
    """Move a server's resources at the source to its migration, in the transaction that claims the destination."""
    hand_sources_over(tx, [migration])


def hand_sources_over(tx: Transaction, migrations: Sequence[ServerMigration]) -> None:
    """Move the source resources of many servers to their migrations, as :func:`hand_source_over`."""
    heirs = {migration.instance_uuid: migration.uuid for migration in migrations}
    allocations.hand_over(tx, heirs, MIGRATION)
    host_devices.hand_over(tx, heirs)


def switch(tx: Transaction, migration: ServerMigration) -> None:
    """Record that the guest is at the destination, with the new flavor; no error if already done.

    Raises: NotFound if the server is gone; ConcurrentUpdate if the move has ended or has no destination.
    """
    present = _claimed(tx, migration)
    assert present.dest_host is not None
    assert present.dest_node is not None
    place = present.dest_host, present.dest_node
    _put(tx, present, *place, present.new_flavor if present.migration_type is MigrationType.RESIZE else None)


def leave_source(tx: Transaction, migration: ServerMigration) -> None:
    """Record that a server was evacuated from its source host, which was declared down and must remove the guest later.

    No error if already done. Raises: as :func:`switch`.
    """
    switch(tx, migration)
    server_migrations.set_status(tx, migration.uuid, OPEN, MigrationStatus.MIGRATING)


def clean_source(tx: Transaction, migration: ServerMigration) -> None:
    """Release the source of a finished evacuation after the source's agent has cleaned up; no error if already done.

    The server may be on any host by now.
    """
    present = server_migrations.get(tx.connection, migration.uuid)
    if present.status is not MigrationStatus.DONE:
        return
    _release_migration(tx, present)
    if present.changes_host:
        _leave(tx, present, present.source_host)
    pending_rollbacks.forget(tx, present.source_host, present.instance_uuid)
    _end(tx, present, MigrationStatus.COMPLETED)


def confirm(tx: Transaction, migration: ServerMigration) -> None:
    """Release the source and end the migration successfully; no error if already done.

    Raises: ConcurrentUpdate if the migration has ended otherwise, or the guest is not at the destination.
    """
    present = server_migrations.get(tx.connection, migration.uuid)
    status = _CONFIRMED[present.migration_type]
    if present.status is status:
        return
    present = _claimed(tx, present)
    place = tx.execute(sa.select(_I.host, _I.node).where(_I.uuid == present.instance_uuid)).first()
    if place is None or tuple(place) != present.dest:
        raise ConcurrentUpdate(f"Server {present.instance_uuid} is not at the destination of migration {present.uuid}.")
    _release_migration(tx, present)
    if present.changes_host:
        _leave(tx, present, present.source_host)
    _count_less(tx, present, Usage.of(present.old_flavor).beyond(Usage.of(present.new_flavor)))
    _end(tx, present, status)


def forsake(tx: Transaction, migration: ServerMigration) -> None:
    """Release the source of an abandoned move, and end its migration with status ``error``; no error if already ended.

    The server may have any host and flavor by now.
    """
    present = server_migrations.get(tx.connection, migration.uuid)
    if not present.is_claimed:
        return
    _release_migration(tx, present)
    if present.changes_host:
        _leave(tx, present, present.source_host)
    _count_less(tx, present, _counted_beside(tx, present))
    _end(tx, present, MigrationStatus.ERROR)


def revert(tx: Transaction, migration: ServerMigration) -> None:
    """Release the destination and give the server its source host and old flavor back; no error if already done.

    Raises: ConcurrentUpdate if the migration has ended otherwise.
    """
    undo_claim(tx, migration, MigrationStatus.REVERTED)


def undo_claim(tx: Transaction, migration: ServerMigration, status: MigrationStatus = MigrationStatus.ERROR) -> None:
    """Undo the claim and the switch of a migration, and set its status; no error if already done.

    The server gets its source host and its old flavor back. With an open status, such as ``accepted``, another
    destination can be claimed afterwards; any other status ends the migration and releases the quota of the growth. If
    nothing is claimed, no resources change. Raises: ConcurrentUpdate if the migration has ended otherwise.
    """
    present = server_migrations.get(tx.connection, migration.uuid)
    if present.status is status and not present.is_claimed:
        return
    if not present.status.is_under_way:
        raise ConcurrentUpdate(f"Migration {present.uuid} has ended: {present.status}.", status=present.status.value)
    if present.is_claimed:
        server = present.instance_uuid
        host_devices.give_back(tx, server)
        host_devices.hand_over(tx, {present.uuid: server})
        allocations.free(tx, server)
        allocations.hand_over(tx, {present.uuid: server}, INSTANCE)
        allocations.forget_idle(tx, [server, present.uuid])
        if present.changes_host:
            assert present.dest_host is not None
            _leave(tx, present, present.dest_host)
        resized = present.migration_type is MigrationType.RESIZE
        _put(tx, present, *present.source, present.old_flavor if resized else None)
    if not status.is_under_way:
        _count_less(tx, present, Usage.of(present.new_flavor).beyond(Usage.of(present.old_flavor)))
    _end(tx, present, status)


def release_all(tx: Transaction, instance_uuid: str, group_uuid: str | None, host: str | None) -> None:
    """Release the resources of all open migrations of a server that is being deleted, and end these migrations.

    ``host``: the host on which the server is recorded. The caller releases the resources on this host, and the quota of
    the present flavor of the server.
    """
    for migration in server_migrations.open_of(tx.connection, [instance_uuid]):
        if migration.is_claimed:
            _release_migration(tx, migration)
            if group_uuid is not None and migration.changes_host:
                for side in migration.hosts - {host}:
                    group_guards.leave(tx, group_uuid, side)
        _count_less(tx, migration, _counted_beside(tx, migration))
        _end(tx, migration, _ENDED_BY_DELETE.get(migration.status, MigrationStatus.FAILED))


def log_other_side(tx: Transaction, migration_uuid: str) -> None:
    """Log the second host of a moving server for the mirrors, or that the server no longer has a second host."""
    side = next(server_migrations.other_sides(tx.connection, migration_uuid), None)
    tx.log("instance", migration_uuid, None if side is None else other_side_value(side))


# --- parts ------------------------------------------------------------------------------------------------------------


def _claimed(tx: Transaction, migration: ServerMigration) -> ServerMigration:
    present = server_migrations.get(tx.connection, migration.uuid)
    if not present.is_claimed:
        raise ConcurrentUpdate(f"Migration {present.uuid} has status {present.status} and holds no resources.")
    return present


def _put(tx: Transaction, migration: ServerMigration, host: str, node: str, flavor: Any) -> None:
    """Set host and node of a server, and the server's flavor unless ``flavor`` is None. Raises: NotFound."""
    values: dict[str, Any] = {"host": host, "node": node, "updated_at": tx.now}
    if flavor is not None:
        values |= {"flavor_id": flavor.flavor_id, "flavor": flavors.as_json(flavor)}
    if _PUT.run(tx.connection, values, of=migration.instance_uuid) == 0:
        raise NotFound(f"Instance {migration.instance_uuid} could not be found.")
    instances.log(tx, migration.instance_uuid)
    log_other_side(tx, migration.uuid)


def _release_migration(tx: Transaction, migration: ServerMigration) -> None:
    allocations.delete_for_consumer(tx, migration.uuid)
    host_devices.give_back(tx, migration.uuid)


def _leave(tx: Transaction, migration: ServerMigration, host: str) -> None:
    group_uuid = instances.group_of(tx.connection, migration.instance_uuid)
    if group_uuid is not None:
        group_guards.leave(tx, group_uuid, host)


def _end(tx: Transaction, migration: ServerMigration, status: MigrationStatus) -> None:
    """Set the status of a migration; if the migration stays open, remove its destination."""
    opened = {"dest_host": None, "dest_node": None} if status.is_under_way else {}
    server_migrations.change(tx, migration.uuid, {"status": status.value, **opened})
    log_other_side(tx, migration.uuid)


def _owner(tx: Transaction, instance_uuid: str) -> tuple[str, str]:
    row = tx.execute(sa.select(_I.project_id, _I.user_id).where(_I.uuid == instance_uuid)).first()
    if row is None:
        raise NotFound(f"Instance {instance_uuid} could not be found.")
    return row.project_id, row.user_id


def _count_less(tx: Transaction, migration: ServerMigration, less: Usage) -> None:
    if less != Usage():
        quotas.give_back(tx, *_owner(tx, migration.instance_uuid), less)


def _counted_beside(tx: Transaction, migration: ServerMigration) -> Usage:
    """Return the quota that a server in a resize uses in addition to its present flavor."""
    if migration.migration_type is not MigrationType.RESIZE:
        return Usage()
    stored = tx.execute(sa.select(_I.flavor).where(_I.uuid == migration.instance_uuid)).scalar_one()
    return migration.largest.beyond(Usage.of(flavors.from_json(stored)))
