# SPDX-License-Identifier: Apache-2.0
"""Purge of servers that were deleted long ago, with their faults, tags, decisions, request specs and other rows.

A purge also deletes the rows of ``leftovers.py``. None of these tables is mirrored, so a purge may run in any process,
also while control processes run. A transaction deletes a limited number of servers, and the purge then pauses for as
long as the transaction took, so that other writers are not blocked.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import leftovers, request_specs
from kilonova.db.core import tables as t
from kilonova.db.core.statements import pieces
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database

SERVERS_AT_ONCE = 50
#: Maximum number of rows of one table that a transaction deletes.
ROWS_AT_ONCE = 2_000
#: Maximum number of deleted servers that one query reads; each query scans all deleted servers.
_FOUND_AT_ONCE = 20_000
_INSTANCE = t.instances.c
#: Columns with the server's uuid but no foreign key to instances.
_BY_UUID = (
    t.server_group_members.c.instance_uuid,
    t.decisions.c.instance_uuid,
    t.instance_actions.c.instance_uuid,
    t.instance_action_events.c.instance_uuid,
    t.server_migrations.c.instance_uuid,
)
#: Tables in which one server may have any number of rows.
_MANY_A_SERVER = (t.instance_actions, t.instance_action_events, t.server_migrations)


def kept_for_deleted(connection: Connection, before: datetime) -> dict[str, int]:
    """Return the number of rows that a purge would delete, by table."""
    servers = sa.select(_INSTANCE.uuid).where(*_is_purgeable(before))
    counts = {t.instances.name: _count(connection, t.instances, *_is_purgeable(before))}
    for column in _columns_of_servers():
        counts[column.table.name] = _count(connection, column.table, column.in_(servers))
    spec, living = t.request_specs.c.uuid, t.instances.alias()
    used = sa.select(living.c.id).where(living.c.request_spec_uuid == spec, living.c.uuid.not_in(servers))
    asked = sa.select(_INSTANCE.request_spec_uuid).where(*_is_purgeable(before))
    counts[t.request_specs.name] = _count(connection, t.request_specs, spec.in_(asked), ~used.exists())
    return counts | leftovers.count(connection, before)


def purge(
    database: Database,
    before: datetime,
    *,
    at_once: int = SERVERS_AT_ONCE,
    rows_at_once: int = ROWS_AT_ONCE,
    on_progress: Callable[[int], None] = lambda _servers: None,
    rest: Callable[[float], object] = time.sleep,
) -> dict[str, int]:
    """Delete the servers that were deleted before ``before``, with their other rows. Idempotent.

    Returns table → number of deleted rows. ``rest``: is called after each transaction and waits for the given number of
    seconds; if it returns true, the purge ends early.
    """
    removed: dict[str, int] = {}
    for job in _jobs(database, before, at_once, rows_at_once):
        began = time.monotonic()
        counts = database.write(job)
        for name, count in counts.items():
            removed[name] = removed.get(name, 0) + count
        on_progress(counts.get(t.instances.name, 0))
        if rest(time.monotonic() - began):
            break
    return removed


def _jobs(
    database: Database, before: datetime, at_once: int, rows_at_once: int
) -> Iterator[Callable[[Transaction], dict[str, int]]]:
    """Yield the jobs of a purge, each for one transaction.

    Ids of rows in large tables are read outside the transactions, because that is slow.
    """
    for found in _purgeable(database, before):
        for uuids in pieces(found, at_once):
            for table in _MANY_A_SERVER:
                while len(ids := _ids(database, table, uuids, rows_at_once)) == rows_at_once:
                    yield partial(_purge_rows, table, ids)
            yield partial(_purge_some, uuids, before)
    while any(_leftovers(database, before).values()):
        yield partial(_purge_leftovers, before)


def _leftovers(database: Database, before: datetime) -> dict[str, int]:
    with database.read(patient=True) as connection:
        return leftovers.count(connection, before)


def _purge_leftovers(before: datetime, tx: Transaction) -> dict[str, int]:
    return leftovers.remove(tx, before, SERVERS_AT_ONCE)


def _purgeable(database: Database, before: datetime) -> Iterator[list[str]]:
    last = 0
    while True:
        with database.read(patient=True) as connection:
            found = sa.select(_INSTANCE.id, _INSTANCE.uuid).where(_INSTANCE.id > last, *_is_purgeable(before))
            rows = connection.execute(found.order_by(_INSTANCE.id).limit(_FOUND_AT_ONCE)).all()
        if not rows:
            return
        last = rows[-1].id
        yield [row.uuid for row in rows]


def _ids(database: Database, table: sa.Table, uuids: Sequence[str], most: int) -> list[int]:
    with database.read(patient=True) as connection:
        of_these = sa.select(table.c.id).where(table.c.instance_uuid.in_(uuids)).limit(most)
        return list(connection.execute(of_these).scalars())


def _is_purgeable(before: datetime) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the conditions for a server to purge: deleted before ``before``, without allocations and workflows.

    The audit reports deleted servers with allocations.
    """
    return (
        _INSTANCE.deleted.is_(True),
        _INSTANCE.deleted_at < before,
        ~sa.select(t.consumers.c.uuid).where(t.consumers.c.uuid == _INSTANCE.uuid).exists(),
        ~sa.select(t.workflows.c.uuid).where(t.workflows.c.instance_uuid == _INSTANCE.uuid).exists(),
    )


def _columns_of_servers() -> list[sa.Column[str]]:
    """Return the server uuid column of each table that has rows about servers."""
    referring = [
        key.parent for table in t.metadata.sorted_tables for key in table.foreign_keys if key.column is _INSTANCE.uuid
    ]
    return [*referring, *_BY_UUID]


def _purge_rows(table: sa.Table, ids: Sequence[int], tx: Transaction) -> dict[str, int]:
    return {table.name: tx.execute(sa.delete(table).where(table.c.id.in_(ids))).rowcount}


def _purge_some(wanted: Sequence[str], before: datetime, tx: Transaction) -> dict[str, int]:
    rows = tx.execute(
        sa.select(_INSTANCE.uuid, _INSTANCE.request_spec_uuid).where(_INSTANCE.uuid.in_(wanted), *_is_purgeable(before))
    ).all()
    uuids = [row.uuid for row in rows]
    inputs = t.decisions.c.circumstances_id
    based_on = sa.select(inputs).where(t.decisions.c.instance_uuid.in_(uuids), inputs.is_not(None)).distinct()
    inputs_left = list(tx.execute(based_on).scalars())
    counts = {}
    for column in _columns_of_servers():
        counts[column.table.name] = tx.execute(sa.delete(column.table).where(column.in_(uuids))).rowcount
    counts[t.instances.name] = tx.execute(sa.delete(t.instances).where(_INSTANCE.uuid.in_(uuids))).rowcount
    specs = {row.request_spec_uuid for row in rows} - {None}
    counts[t.request_specs.name] = request_specs.delete_unused(tx, sorted(specs))
    used = sa.select(t.decisions.c.id).where(inputs == t.circumstances.c.uuid)
    unused = sa.delete(t.circumstances).where(t.circumstances.c.uuid.in_(inputs_left), ~used.exists())
    counts[t.circumstances.name] = tx.execute(unused).rowcount
    return counts


def _count(connection: Connection, table: sa.FromClause, *conditions: sa.ColumnElement[bool]) -> int:
    return int(connection.execute(sa.select(sa.func.count()).select_from(table).where(*conditions)).scalar_one())
