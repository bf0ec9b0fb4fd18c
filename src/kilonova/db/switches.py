# SPDX-License-Identifier: Apache-2.0
"""Cloud-wide switches that operators turn on and off at run time. A switch is on while it has a row."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.records import dataclass

#: Name of the switch that makes all APIs refuse changes.
READ_ONLY = "read-only"
_S = t.switches.c


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch that is on. ``reason``: the operator's reason. ``since``: when it was turned on."""

    name: str
    reason: str
    since: datetime


def find(connection: Connection, name: str) -> Switch | None:
    """Return a switch that is on, or None if it is off."""
    row = connection.execute(sa.select(_S.name, _S.reason, _S.created_at).where(_S.name == name)).first()
    return None if row is None else Switch(row.name, row.reason, row.created_at)


def turn_on(tx: Transaction, name: str, reason: str) -> None:
    """Turn a switch on; if it is on already, only change the reason."""
    changed = tx.execute(sa.update(t.switches).where(_S.name == name).values(reason=reason)).rowcount
    if not changed and tx.execute(sa.select(_S.name).where(_S.name == name)).first() is None:
        tx.execute(sa.insert(t.switches), {"name": name, "reason": reason, "created_at": tx.now})


def turn_off(tx: Transaction, name: str) -> None:
    """Turn a switch off; no error if already off."""
    tx.execute(sa.delete(t.switches).where(_S.name == name))
