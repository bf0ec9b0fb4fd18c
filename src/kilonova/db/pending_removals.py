# SPDX-License-Identifier: Apache-2.0
"""Pending removals: records that a guest must be removed from a host that was unreachable.

A delete, build or move that ends while a host is unreachable writes a record, in the transaction that stops counting
the guest on that host. An operator's request to remove a guest writes one too. The records outlive the server's rows.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.statements import insert_missing, pieces
from kilonova.db.core.transaction import Transaction
from kilonova.model.found_guest import RemovalReason

#: Minimum age of a record before it is deleted: an order in progress may still create the guest hours later.
KEPT = timedelta(days=1)
_D = t.departures.c
_OF = Prepared(
    sa.select(_D.host, _D.instance_uuid, _D.departure, _D.created_at).where(
        _D.instance_uuid.in_(sa.bindparam("uuids", expanding=True))
    )
)


def note(tx: Transaction, host: str, instance_uuid: str, departure: RemovalReason) -> None:
    """Record that the guest of an instance must be removed from ``host`` if it was created before now."""
    key = sa.and_(_D.host == host, _D.instance_uuid == instance_uuid)
    values = {"departure": departure.value, "created_at": tx.now}
    if not insert_missing(tx, t.departures, {"host": host, "instance_uuid": instance_uuid, **values}):
        tx.execute(sa.update(t.departures).where(key).values(values))


def of(connection: Connection, uuids: Collection[str]) -> dict[tuple[str, str], tuple[RemovalReason, datetime]]:
    """Return (host, instance uuid) → (reason, time) of the pending removals of these instances."""
    rows = _OF.rows(connection, uuids=list(uuids)) if uuids else ()
    return {(row[0], row[1]): (RemovalReason(row[2]), row[3]) for row in rows}


def forgettable(
    connection: Connection, still_there: Mapping[str, Collection[str]], now: datetime
) -> list[tuple[str, str]]:
    """Return the old records whose host has reported its guests, but not the guest of the record.

    ``still_there``: host → uuids of the guests that it has reported.
    """
    hosts = list(still_there)
    old: list[tuple[str, str]] = []
    for some in pieces(hosts):
        chosen = _D.host.in_(some), _D.created_at < now - KEPT
        old += [tuple(row) for row in connection.execute(sa.select(_D.host, _D.instance_uuid).where(*chosen))]
    return [(host, uuid) for host, uuid in old if uuid not in still_there[host]]


def forget(tx: Transaction, records: Collection[tuple[str, str]]) -> None:
    """Delete records by (host, instance uuid); no error if absent."""
    for host, uuid in records:
        tx.execute(sa.delete(t.departures).where(_D.host == host, _D.instance_uuid == uuid))
