# SPDX-License-Identifier: Apache-2.0
"""Migrations of servers: their rows, lists of them, and the second host of a moving server.

:mod:`kilonova.db.moves` claims and releases the resources of migrations.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import flavors
from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared, PreparedInsert, PreparedUpdate
from kilonova.db.core.statements import ManyRows, pieces
from kilonova.db.core.transaction import Transaction
from kilonova.errors import ConcurrentUpdate, InvalidRequest, NotFound
from kilonova.model.flavor import Flavor
from kilonova.model.server_migration import OPEN, MigrationStatus, MigrationType, ServerMigration
from kilonova.records import dataclass

_M, _I = t.server_migrations.c, t.instances.c
#: SQL condition: the migration is in progress.
IS_OPEN = _M.status.in_(sorted(OPEN))
#: Statuses of a migration whose server has arrived at the destination, and may have left that host since.
_ARRIVED = {
    MigrationStatus.FINISHED,
    MigrationStatus.CONFIRMING,
    MigrationStatus.REVERTING,
    MigrationStatus.DONE,
}
_OPEN_OF = Prepared(
    sa.select(t.server_migrations)
    .where(_M.instance_uuid.in_(sa.bindparam("uuids", expanding=True)), _M.status.in_([each.value for each in OPEN]))
    .order_by(_M.id)
)
_GET = Prepared(sa.select(t.server_migrations).where(_M.uuid == sa.bindparam("uuid")))
_INSERT = PreparedInsert(t.server_migrations)
_UPDATE = PreparedUpdate(t.server_migrations, _M.uuid == sa.bindparam("of"))
_COLUMNS = tuple(column.name for column in _M)
_OTHER_SIDES = (
    sa.select(
        t.server_migrations,
        _I.host.label("present_host"),
        _I.node.label("present_node"),
        _I.group_uuid,
        _I.image_properties,
    )
    .join(t.instances, _I.uuid == _M.instance_uuid)
    .where(IS_OPEN, _M.dest_host.is_not(None), _I.deleted.is_(False))
    .order_by(_M.id)
)
_OTHER_SIDE = Prepared(_OTHER_SIDES.where(_M.uuid == sa.bindparam("uuid")))
_OF_OTHER_SIDES = tuple(column.name for column in _OTHER_SIDES.selected_columns)
_FLAVORS = ("old_flavor", "new_flavor")


@dataclass(frozen=True, slots=True)
class MigrationQuery:
    """A query for migrations, newest first. Fields with default values do not restrict the result.

    ``host``: source or destination. ``open_only``: only migrations in progress. ``marker``: a migration's uuid.
    """

    instance_uuid: str | None = None
    host: str | None = None
    source_compute: str | None = None
    status: str | None = None
    migration_type: str | None = None
    user_id: str | None = None
    project_id: str | None = None
    changed_since: datetime | None = None
    changed_before: datetime | None = None
    open_only: bool = False
    limit: int = 1000
    marker: str | None = None


@dataclass(frozen=True, slots=True)
class OtherSide:
    """The host on which a moving server holds resources, but is not recorded.

    ``flavor``: the server's flavor on that host.
    """

    migration: ServerMigration
    host: str
    node: str
    flavor: Flavor
    group_uuid: str | None
    image_properties: Mapping[str, str]


def insert(tx: Transaction, migration: ServerMigration) -> ServerMigration:
    """Insert a new migration and return it with its id."""
    row = {
        "uuid": migration.uuid,
        "instance_uuid": migration.instance_uuid,
        "migration_type": migration.migration_type.value,
        "status": migration.status.value,
        "source_host": migration.source_host,
        "source_node": migration.source_node,
        "dest_host": migration.dest_host,
        "dest_node": migration.dest_node,
        "old_flavor": flavors.as_json(migration.old_flavor),
        "new_flavor": flavors.as_json(migration.new_flavor),
        "request_id": migration.request_id,
        "user_id": migration.user_id,
        "project_id": migration.project_id,
        "progress": None if migration.progress is None else dict(migration.progress),
        "created_at": tx.now,
    }
    _INSERT.run(tx.connection, [row])
    return get(tx.connection, migration.uuid)


def get(connection: Connection, uuid: str) -> ServerMigration:
    """Return a migration. Raises: NotFound."""
    rows = _GET.rows(connection, uuid=uuid)
    if not rows:
        raise NotFound(f"Migration {uuid} could not be found.")
    return _migration(dict(zip(_COLUMNS, rows[0], strict=True)))


def statuses(connection: Connection, uuids: Iterable[str]) -> dict[str, MigrationStatus]:
    """Return migration → its status; unknown migrations are absent."""
    found: dict[str, MigrationStatus] = {}
    for some in pieces(uuids):
        rows = connection.execute(sa.select(_M.uuid, _M.status).where(_M.uuid.in_(some)))
        found.update((row.uuid, MigrationStatus(row.status)) for row in rows)
    return found


def get_of_server(connection: Connection, instance_uuid: str, number: int) -> ServerMigration:
    """Return a migration of a server by its id. Raises: NotFound."""
    mine = sa.select(t.server_migrations).where(_M.id == number, _M.instance_uuid == instance_uuid)
    row = connection.execute(mine).mappings().first()
    if row is None:
        raise NotFound(f"Migration {number} not found for server {instance_uuid}.")
    return _migration(row)


def find_open(connection: Connection, instance_uuid: str) -> ServerMigration | None:
    """Return the newest migration in progress of a server, or None."""
    found = open_of(connection, [instance_uuid])
    return found[-1] if found else None


def open_of(connection: Connection, instance_uuids: Collection[str]) -> tuple[ServerMigration, ...]:
    """Return the migrations in progress of these servers, oldest first."""
    rows = _OPEN_OF.rows(connection, uuids=list(instance_uuids)) if instance_uuids else ()
    return tuple(_migration(dict(zip(_COLUMNS, row, strict=True))) for row in rows)


def open_at(connection: Connection, host: str) -> bool:
    """Return whether a migration from or to a service host is in progress.

    A finished evacuation does not count, although its source may still have to be cleaned up.
    """
    here = sa.or_(_M.source_host == host, _M.dest_host == host)
    moving = IS_OPEN, _M.status != MigrationStatus.DONE.value
    return connection.execute(sa.select(_M.id).where(here, *moving).limit(1)).first() is not None


def evacuated_from(connection: Connection, hosts: Collection[str]) -> tuple[ServerMigration, ...]:
    """Return finished evacuations from these service hosts whose sources have not been cleaned up yet."""
    found: list[ServerMigration] = []
    names = sorted(hosts)
    for some in pieces(names):
        here = _M.status == MigrationStatus.DONE.value, _M.source_host.in_(some)
        rows = connection.execute(sa.select(t.server_migrations).where(*here).order_by(_M.id)).mappings()
        found += map(_migration, rows)
    return tuple(found)


def claimed(connection: Connection) -> tuple[ServerMigration, ...]:
    """Return all migrations in progress that hold resources on both hosts."""
    both = sa.select(t.server_migrations).where(IS_OPEN, _M.dest_host.is_not(None)).order_by(_M.id)
    return tuple(map(_migration, connection.execute(both).mappings()))


def finished_before(connection: Connection, moment: datetime, limit: int) -> tuple[ServerMigration, ...]:
    """Return up to ``limit`` moves that have waited for confirmation since before ``moment``, oldest first.

    Moves of servers with a task are left out.
    """
    at_rest = _I.deleted.is_(False), _I.task_state.is_(None)
    due = (
        sa.select(t.server_migrations)
        .join(t.instances, _I.uuid == _M.instance_uuid)
        .where(_M.status == MigrationStatus.FINISHED.value, _M.updated_at < moment, *at_rest)
        .order_by(_M.updated_at)
    )
    return tuple(map(_migration, connection.execute(due.limit(limit)).mappings()))


def list_page(connection: Connection, query: MigrationQuery) -> tuple[ServerMigration, ...]:
    """Return one page of migrations, newest first. Raises: InvalidRequest for an unknown marker."""
    conditions: list[Any] = [
        column == value
        for column, value in (
            (_M.instance_uuid, query.instance_uuid),
            (_M.source_host, query.source_compute),
            (_M.status, query.status),
            (_M.migration_type, query.migration_type),
            (_M.user_id, query.user_id),
            (_M.project_id, query.project_id),
        )
        if value is not None
    ]
    if query.host is not None:
        conditions.append(sa.or_(_M.source_host == query.host, _M.dest_host == query.host))
    if query.open_only:
        conditions.append(IS_OPEN)
    changed_at = sa.func.coalesce(_M.updated_at, _M.created_at)
    if query.changed_since is not None:
        conditions.append(changed_at >= query.changed_since)
    if query.changed_before is not None:
        conditions.append(changed_at <= query.changed_before)
    if query.marker is not None:
        marker = connection.execute(sa.select(_M.created_at, _M.id).where(_M.uuid == query.marker)).first()
        if marker is None:
            raise InvalidRequest(f"Marker {query.marker} could not be found.")
        earlier = sa.and_(_M.created_at == marker.created_at, _M.id < marker.id)
        conditions.append(sa.or_(_M.created_at < marker.created_at, earlier))
    page = sa.select(t.server_migrations).where(*conditions).order_by(_M.created_at.desc(), _M.id.desc())
    return tuple(map(_migration, connection.execute(page.limit(query.limit)).mappings()))


def set_status(
    tx: Transaction, uuid: str, expected: Collection[MigrationStatus], status: MigrationStatus
) -> ServerMigration:
    """Change the status of a migration if it is in ``expected``; no error if the migration has the new status already.

    Only :mod:`kilonova.db.moves` ends a migration, because it also releases the resources of the migration. Raises:
    NotFound, ConcurrentUpdate.
    """
    present = get(tx.connection, uuid)
    if present.status is status:
        return present
    if present.status not in expected:
        raise ConcurrentUpdate(
            f"Migration {uuid} is {present.status}; expected: {', '.join(sorted(expected))}.",
            status=present.status.value,
        )
    assert status.is_under_way or not present.is_claimed, "a claimed migration must release one side before it ends"
    change(tx, uuid, {"status": status.value})
    return get(tx.connection, uuid)


def change(tx: Transaction, uuid: str, values: Mapping[str, Any]) -> None:
    """Set columns of a migration."""
    _UPDATE.run(tx.connection, {**values, "updated_at": tx.now}, of=uuid)


def set_flavor(tx: Transaction, uuid: str, flavor: Flavor) -> ServerMigration:
    """Replace both flavors of a migration by ``flavor``. The migration must be no resize, and must hold no claim.

    Raises: NotFound.
    """
    values = dict.fromkeys(_FLAVORS, flavors.as_json(flavor))
    tx.execute(sa.update(t.server_migrations).where(_M.uuid == uuid).values(values))
    return get(tx.connection, uuid)


def set_progress(tx: Transaction, uuid: str, progress: Mapping[str, int]) -> None:
    """Store the progress of a live migration that is still in progress; otherwise do nothing.

    The status ``queued`` becomes ``running``.
    """
    changed = sa.update(t.server_migrations).where(_M.uuid == uuid, IS_OPEN)
    queued, running = MigrationStatus.QUEUED.value, MigrationStatus.RUNNING.value
    status = sa.case((_M.status == queued, running), else_=_M.status)
    tx.execute(changed.values(progress=dict(progress), status=status, updated_at=tx.now))


_CLAIM = ManyRows(
    {
        "uuid": _M.uuid.type,
        "status": _M.status.type,
        "becomes": _M.status.type,
        "host": _M.source_host.type,
        "node": _M.source_node.type,
    },
    lambda given: (
        sa.update(t.server_migrations)
        .where(_M.uuid == given["uuid"], _M.status == given["status"], _M.dest_host.is_(None))
        .values(
            status=given["becomes"],
            dest_host=given["host"],
            dest_node=given["node"],
            updated_at=sa.bindparam("now", type_=t.Time),
        )
    ),
)


def claim_destinations(tx: Transaction, rows: Sequence[Mapping[str, str]]) -> int:
    """Set the destinations of migrations that have none and are in the given status. Returns the number of migrations.

    ``rows``: ``uuid``, ``status``, the new status as ``becomes``, ``host`` and ``node``.
    """
    return _CLAIM.run(tx, rows, now=tx.now)


def other_sides(connection: Connection, migration_uuid: str | None = None) -> Iterator[OtherSide]:
    """Yield the second host of each moving server, for all migrations in progress or for one of them.

    A resize on the same hypervisor has no second host.
    """
    found: Iterable[Sequence[Any]] = (
        connection.execute(_OTHER_SIDES)
        if migration_uuid is None
        else _OTHER_SIDE.rows(connection, uuid=migration_uuid)
    )
    for values in found:
        row = dict(zip(_OF_OTHER_SIDES, values, strict=True))
        migration = _migration(row)
        assert migration.dest_host is not None
        assert migration.dest_node is not None
        if migration.dest == migration.source:
            continue
        present = row["present_host"], row["present_node"] or row["present_host"]
        moved = migration.status in _ARRIVED or present == migration.dest
        host, node = migration.source if moved else (migration.dest_host, migration.dest_node)
        flavor = migration.old_flavor if moved else migration.new_flavor
        yield OtherSide(migration, host, node, flavor, row["group_uuid"], row["image_properties"] or {})


def _migration(row: Mapping[Any, Any]) -> ServerMigration:
    values = {name: row[name] for name in ServerMigration.__dataclass_fields__ if name not in _FLAVORS}
    values |= {name: flavors.from_json(row[name]) for name in _FLAVORS}
    return ServerMigration(
        **{
            **values,
            "migration_type": MigrationType(row["migration_type"]),
            "status": MigrationStatus(row["status"]),
        }
    )
