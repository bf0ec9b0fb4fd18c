# SPDX-License-Identifier: Apache-2.0
"""The guard row of isolation: what makes the rules and the zones of aggregates part of the claim.

Its version rises in the transaction of whatever changes a rule, a zone or the hosts under one. A claim holds only
while the version is the one that its decision was made with. Before the first rule there is no row, and the version
is 0.
"""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction

_ROW = t.isolation_version.c
_STORED = sa.select(_ROW.version).where(_ROW.id == 1)

#: The present version, for the condition of a statement.
VERSION = sa.func.coalesce(_STORED.scalar_subquery(), 0)


def version(connection: Connection) -> int:
    """Return the present version."""
    return connection.execute(_STORED).scalar() or 0


def rise(tx: Transaction) -> None:
    """Make every claim decided so far decide again, and tell the mirrors the new version."""
    if tx.execute(sa.update(t.isolation_version).where(_ROW.id == 1).values(version=_ROW.version + 1)).rowcount == 0:
        tx.execute(sa.insert(t.isolation_version), {"id": 1, "version": 1})
    tx.log("isolation", "version", version(tx.connection))
