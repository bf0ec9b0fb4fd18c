# SPDX-License-Identifier: Apache-2.0
"""Tokens with which consoles are used. Only hashes are stored: whoever reads the database can use no console.

A token counts until it expires, while its server is on the host where it was when the token was made.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.model.console import ConsoleEnd

#: Of one server; with one more the oldest is forgotten.
MOST = 100
_FORGOTTEN_TOGETHER = 1000
_T = t.console_auth_tokens.c
_I = t.instances.c


@dataclass(frozen=True, slots=True)
class ConsoleToken:
    """What a token leads to. ``host``: the compute service host at which it counts."""

    instance_uuid: str
    host: str
    console_type: str
    end: ConsoleEnd
    expires_at: datetime


def store(tx: Transaction, token: str, leads_to: ConsoleToken) -> None:
    """Store a new token of a server, and forget the oldest of too many."""
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
    """Return what a token leads to, None for one that does not count, or not any more."""
    joined = sa.select(t.console_auth_tokens).join(t.instances, _I.uuid == _T.instance_uuid)
    counts = _I.deleted.is_(False), _I.host == _T.host, _T.expires_at > now
    row = connection.execute(joined.where(_T.token_hash == _hashed(token), *counts)).first()
    if row is None:
        return None
    end = ConsoleEnd(row.address, row.port, row.tls_port, row.internal_access_path)
    return ConsoleToken(row.instance_uuid, row.host, row.console_type, end, row.expires_at)


def expired(connection: Connection, now: datetime) -> list[str]:
    """Return hashes of some tokens that have expired."""
    due = sa.select(_T.token_hash).where(_T.expires_at <= now).limit(_FORGOTTEN_TOGETHER)
    return list(connection.execute(due).scalars())


def forget(tx: Transaction, hashes: list[str]) -> None:
    """Remove tokens by their hashes; absent is success."""
    tx.execute(sa.delete(t.console_auth_tokens).where(_T.token_hash.in_(hashes)))


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
