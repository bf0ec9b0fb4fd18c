# SPDX-License-Identifier: Apache-2.0
"""Console tokens. Only their hashes are stored, so a reader of the database cannot open a console.

A token is valid until it expires, and only while its server is on the host where it was when the token was created.
"""

import hashlib
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.model.console import ConsoleEnd
from kilonova.records import dataclass

#: Maximum number of tokens of one server; a further token replaces the oldest.
MOST = 100
_FORGOTTEN_TOGETHER = 1000
_T = t.console_auth_tokens.c
_I = t.instances.c


@dataclass(frozen=True, slots=True)
class ConsoleToken:
    """The console that a token opens. ``host``: the compute service host for which the token is valid."""

    instance_uuid: str
    host: str
    console_type: str
    end: ConsoleEnd
    expires_at: datetime


def store(tx: Transaction, token: str, leads_to: ConsoleToken) -> None:
    """Store a new token, and delete the oldest tokens of the server beyond :data:`MOST`."""
    mine = _T.instance_uuid == leads_to.instance_uuid
    present = list(tx.execute(sa.select(_T.token_hash).where(mine).order_by(_T.expires_at.desc())).scalars())
    if len(present) >= MOST:
        tx.execute(sa.delete(t.console_auth_tokens).where(_T.token_hash.in_(present[MOST - 1 :])))
    end = leads_to.end
    row: dict[str, Any] = {
        "token_hash": _hashed(token),
        "instance_uuid": leads_to.instance_uuid,
        "host": leads_to.host,
        "console_type": leads_to.console_type,
        "address": end.address,
        "port": end.port,
        "tls_port": end.tls_port,
        "internal_access_path": end.internal_access_path,
        "expires_at": leads_to.expires_at,
    }
    tx.execute(sa.insert(t.console_auth_tokens), row)


def find(connection: Connection, token: str, now: datetime) -> ConsoleToken | None:
    """Return the console of a token, or None if the token is unknown or no longer valid."""
    joined = sa.select(t.console_auth_tokens).join(t.instances, _I.uuid == _T.instance_uuid)
    counts = _I.deleted.is_(False), _I.host == _T.host, _T.expires_at > now
    row = connection.execute(joined.where(_T.token_hash == _hashed(token), *counts)).first()
    if row is None:
        return None
    end = ConsoleEnd(row.address, row.port, row.tls_port, row.internal_access_path)
    return ConsoleToken(row.instance_uuid, row.host, row.console_type, end, row.expires_at)


def expired(connection: Connection, now: datetime) -> list[str]:
    """Return the hashes of at most ``_FORGOTTEN_TOGETHER`` expired tokens."""
    due = sa.select(_T.token_hash).where(_T.expires_at <= now).limit(_FORGOTTEN_TOGETHER)
    return list(connection.execute(due).scalars())


def forget(tx: Transaction, hashes: list[str]) -> None:
    """Delete tokens by their hashes; no error if absent."""
    tx.execute(sa.delete(t.console_auth_tokens).where(_T.token_hash.in_(hashes)))


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
