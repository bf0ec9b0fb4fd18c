# SPDX-License-Identifier: Apache-2.0
"""Pending rollbacks: records that a host must restore a guest to its state before a move (ADR 25).

If a host cannot execute the rollback of a move, because it is unreachable or fails, a record is written in the
transaction that skips the host. The agent gets its records when it starts, before any other order. A record is deleted
when the agent reports that the guest has been restored or does not exist.
"""

from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.statements import insert_missing, pieces
from kilonova.db.core.transaction import Transaction
from kilonova.model.server_migration import MigrationType, ServerMigration
from kilonova.records import dataclass

_H, _M, _I = t.homecomings.c, t.server_migrations.c, t.instances.c
_FORGET = Prepared(
    sa.delete(t.homecomings).where(_H.host == sa.bindparam("host"), _H.instance_uuid == sa.bindparam("uuid"))
)


@dataclass(frozen=True, slots=True)
class DueRollback:
    """A pending rollback of a guest on ``host``.

    ``drops_made``: the guest that a move on the same host created must be removed. ``runs``: the guest ran before the
    move.
    ``noted_at``: time of the record.
    """

    host: str
    instance_uuid: str
    drops_made: bool
    runs: bool
    noted_at: datetime


def note(tx: Transaction, host: str, move: ServerMigration, *, drops_made: bool, runs: bool) -> None:
    """Record that a host must undo a move of a server.

    If there is already a record that is younger than the move, it was written for the same move. Then the stored
    ``runs`` is kept, because it is the state before the move, and ``drops_made`` becomes true if the stored or the new
    value is true.
    """
    uuid = move.instance_uuid
    mine = sa.and_(_H.host == host, _H.instance_uuid == uuid)
    key, values = {"host": host, "instance_uuid": uuid}, {"drops_made": drops_made, "runs": runs, "created_at": tx.now}
    if insert_missing(tx, t.homecomings, {**key, **values}):
        return
    known = tx.execute(sa.select(_H.drops_made, _H.runs, _H.created_at).where(mine)).one()
    if move.created_at is not None and known.created_at >= move.created_at:
        values |= {"drops_made": drops_made or known.drops_made, "runs": known.runs}
    tx.execute(sa.update(t.homecomings).where(mine).values(values))


def due(connection: Connection, hosts: Collection[str]) -> tuple[DueRollback, ...]:
    """Return the pending rollbacks of these hosts, for servers that have not been moved again since."""
    found: list[DueRollback] = []
    names = sorted(hosts)
    moved_again = sa.select(_M.id).where(
        _M.instance_uuid == _H.instance_uuid,
        _M.migration_type != MigrationType.EVACUATION.value,
        _M.created_at > _H.created_at,
    )
    wanted = sa.select(t.homecomings).join(t.instances, _I.uuid == _H.instance_uuid)
    for some in pieces(names):
        chosen = _H.host.in_(some), _I.deleted.is_(False), ~moved_again.exists()
        rows = connection.execute(wanted.where(*chosen).order_by(_H.host, _H.instance_uuid))
        found += [DueRollback(row.host, row.instance_uuid, row.drops_made, row.runs, row.created_at) for row in rows]
    return tuple(found)


def forget(tx: Transaction, host: str, instance_uuid: str) -> None:
    """Delete a pending rollback that is done; no error if absent."""
    _FORGET.run(tx.connection, host=host, uuid=instance_uuid)
