# SPDX-License-Identifier: Apache-2.0
"""Keys that sign tickets for image data (ADR 23), and a check of the agent of the host that a ticket names."""

import secrets
from dataclasses import field
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.records import dataclass

_BYTES = 32
_K = t.ticket_keys.c
#: Minimum time that a replaced key is kept: far longer than a ticket is valid.
_KEPT = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key. New tickets are signed with the newest key."""

    id: int
    secret: bytes = field(repr=False)
    created_at: datetime


def list_all(connection: Connection) -> tuple[StoredKey, ...]:
    """Return all keys, the newest last."""
    rows = connection.execute(sa.select(_K.id, _K.secret, _K.created_at).order_by(_K.id))
    return tuple(StoredKey(row.id, bytes.fromhex(row.secret), row.created_at) for row in rows)


def ensure(tx: Transaction) -> None:
    """Create the first key unless one exists."""
    if tx.execute(sa.select(_K.id).limit(1)).first() is None:
        _add(tx)


def rotate(tx: Transaction, *, drop_old: bool) -> None:
    """Sign with a new key from now on. ``drop_old``: delete earlier keys, so that their tickets are invalid at once."""
    before = tx.execute(sa.select(sa.func.max(_K.id))).scalar()
    gone = sa.delete(t.ticket_keys).where(_K.id <= (before or 0))
    if not drop_old:  # keep the key that has signed until now, and keys younger than _KEPT
        gone = gone.where(_K.id != before, _K.created_at < tx.now - _KEPT)
    _add(tx)
    tx.execute(gone)


def has_agent(connection: Connection, host: str) -> bool:
    """Return whether ``host`` has an authorized agent.

    An agent inside a control process is authorized. An agent process is authorized if it is enrolled for the host and
    not revoked.
    """
    hosts, processes, agents, enrolled = t.host_agents.c, t.processes.c, t.enrolled_agents.c, t.enrolled_hosts.c
    here = sa.select(processes.agent).join(t.host_agents, hosts.process == processes.uuid).where(hosts.host == host)
    row = connection.execute(here).first()
    if row is None:
        return False
    if row.agent is None:
        return True
    speaks = sa.select(agents.name).join(t.enrolled_hosts, enrolled.agent == agents.name)
    speaks = speaks.where(agents.name == row.agent, enrolled.host == host, agents.revoked_at.is_(None))
    return connection.execute(speaks).first() is not None


def _add(tx: Transaction) -> None:
    tx.execute(sa.insert(t.ticket_keys), {"secret": secrets.token_hex(_BYTES), "created_at": tx.now})
