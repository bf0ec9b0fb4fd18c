# SPDX-License-Identifier: Apache-2.0
"""Guard row of isolation: the version number of the isolation rules and availability zones.

A transaction increments the version if it changes a rule, a zone, or the hosts of an aggregate with a rule or a zone. A
claim succeeds only if the version is still that of its scheduling decision. Before the first rule there is no row, and
the version is 0.
"""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction

_ROW = t.isolation_version.c
_STORED = sa.select(_ROW.version).where(_ROW.id == 1)

#: SQL expression of the present version of the isolation rules.
VERSION = sa.func.coalesce(_STORED.scalar_subquery(), 0)


def version(connection: Connection) -> int:
    """Return the present version of the isolation rules."""
    return connection.execute(_STORED).scalar() or 0


def rise(tx: Transaction) -> None:
    """Increment the version, so that all decisions which are not claimed yet are repeated; log it for the mirrors."""
    if tx.execute(sa.update(t.isolation_version).where(_ROW.id == 1).values(version=_ROW.version + 1)).rowcount == 0:
        tx.execute(sa.insert(t.isolation_version), {"id": 1, "version": 1})
    tx.log("isolation", "version", version(tx.connection))
