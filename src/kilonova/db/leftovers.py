# SPDX-License-Identifier: Apache-2.0
"""Deletion of rows without use: quota rows with no usage and no limits; pending removals and strays of deleted hosts.

None of these tables is mirrored, so the deletions are not logged.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.model.host import COMPUTE

_Q, _D, _O, _S = t.quotas.c, t.departures.c, t.odd_guests.c, t.services.c
_PAGE = 500


def count(connection: Connection, before: datetime) -> dict[str, int]:
    """Count the rows that :func:`remove` would delete, by table."""
    return {
        t.quotas.name: sum(len(keys) for keys in _empty_accounts(connection)),
        t.departures.name: _count(connection, t.departures, *_of_lost_hosts(_D, before)),
        t.odd_guests.name: _count(connection, t.odd_guests, *_of_lost_hosts(_O, before)),
    }


def remove(tx: Transaction, before: datetime, most: int) -> dict[str, int]:
    """Delete up to ``most`` rows of each table. Returns the number of deleted rows by table."""
    accounts = next(_empty_accounts(tx.connection), [])
    for project_id, user_id in accounts:
        tx.execute(sa.delete(t.quotas).where(_Q.project_id == project_id, _Q.user_id == user_id))
    removed = {t.quotas.name: len(accounts)}
    for table, columns in ((t.departures, _D), (t.odd_guests, _O)):
        key = (columns.host, columns.instance_uuid)
        removed[table.name] = _delete_some(tx, table, key, _of_lost_hosts(columns, before), most)
    return removed


def _empty_accounts(connection: Connection) -> Iterator[list[tuple[str, str]]]:
    """Yield pages of (project, user) of quota rows with no usage and no limits, which have no effect."""
    last = ("", "")
    key = (_Q.project_id, _Q.user_id)
    while True:
        nothing = (_Q.instances == 0, _Q.cores == 0, _Q.ram == 0)
        later = sa.or_(_Q.project_id > last[0], sa.and_(_Q.project_id == last[0], _Q.user_id > last[1]))
        rows = connection.execute(sa.select(*key, _Q.limits).where(*nothing, later).order_by(*key).limit(_PAGE)).all()
        if not rows:
            return
        last = (rows[-1].project_id, rows[-1].user_id)
        if empty := [(row.project_id, row.user_id) for row in rows if not row.limits]:
            yield empty


def _of_lost_hosts(columns: Any, before: datetime) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the conditions for rows created before ``before`` whose host has no compute service."""
    service = sa.select(_S.id).where(_S.host == columns.host, _S.binary == COMPUTE)
    return columns.created_at < before, ~service.exists()


def _count(connection: Connection, table: sa.Table, *conditions: sa.ColumnElement[bool]) -> int:
    return int(connection.execute(sa.select(sa.func.count()).select_from(table).where(*conditions)).scalar_one())


def _delete_some(
    tx: Transaction,
    table: sa.Table,
    key: Sequence[sa.Column[str]],
    conditions: Sequence[sa.ColumnElement[bool]],
    most: int,
) -> int:
    rows = tx.execute(sa.select(*key).where(*conditions).limit(most)).all()
    for row in rows:
        tx.execute(sa.delete(table).where(*(column == value for column, value in zip(key, row, strict=True))))
    return len(rows)
