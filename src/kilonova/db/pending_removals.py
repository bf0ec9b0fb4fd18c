# SPDX-License-Identifier: Apache-2.0
"""Records that a guest has to go from a host: written where nobody could be asked to remove it there and then.

Deletes, builds, and moves that end without a host that cannot be reached leave one, in the transaction that counts the
guest there as gone; so does an operator who wants a guest removed. They outlive the server's own rows.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.statements import insert_missing
from kilonova.db.core.transaction import Transaction
from kilonova.model.found_guest import RemovalReason

#: A host that does not have the guest may yet get it: by an order that is being carried out, for hours maybe.
KEPT = timedelta(days=1)
_D = t.departures.c
_OF = Prepared(
    sa.select(_D.host, _D.instance_uuid, _D.departure, _D.created_at).where(
        _D.instance_uuid.in_(sa.bindparam("uuids", expanding=True))
    )
)


def note(tx: Transaction, host: str, instance_uuid: str, departure: RemovalReason) -> None:
    """Record that the guest of an instance has to go from ``host``, if it is there and was made before now."""
    key = sa.and_(_D.host == host, _D.instance_uuid == instance_uuid)
    values = {"departure": departure.value, "created_at": tx.now}
    if not insert_missing(tx, t.departures, {"host": host, "instance_uuid": instance_uuid, **values}):
        tx.execute(sa.update(t.departures).where(key).values(values))


def of(connection: Connection, uuids: Collection[str]) -> dict[tuple[str, str], tuple[RemovalReason, datetime]]:
    """Return (host, instance uuid) → what is recorded and since when."""
    rows = _OF.rows(connection, uuids=list(uuids)) if uuids else ()
    return {(row[0], row[1]): (RemovalReason(row[2]), row[3]) for row in rows}


def forgettable(
    connection: Connection, still_there: Mapping[str, Collection[str]], now: datetime
) -> list[tuple[str, str]]:
    """Return the old records of hosts that have reported their guests, but for those of guests ``still_there``."""
    hosts = list(still_there)
    old: list[tuple[str, str]] = []
    for start in range(0, len(hosts), 500):
        chosen = _D.host.in_(hosts[start : start + 500]), _D.created_at < now - KEPT
        old += [tuple(row) for row in connection.execute(sa.select(_D.host, _D.instance_uuid).where(*chosen))]
    return [(host, uuid) for host, uuid in old if uuid not in still_there[host]]


def forget(tx: Transaction, records: Collection[tuple[str, str]]) -> None:
    """Remove records of guests that are gone; done already is success."""
    for host, uuid in records:
        tx.execute(sa.delete(t.departures).where(_D.host == host, _D.instance_uuid == uuid))
