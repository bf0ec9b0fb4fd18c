# SPDX-License-Identifier: Apache-2.0
"""Key pairs of users. Only public keys are stored."""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.statements import insert_missing
from kilonova.db.core.transaction import Transaction
from kilonova.deadline import heeding
from kilonova.errors import Conflict, NotFound, OverQuota
from kilonova.model.keypair import Keypair

_FIELDS = (
    t.keypairs.c.id,
    t.keypairs.c.user_id,
    t.keypairs.c.name,
    t.keypairs.c.type,
    t.keypairs.c.fingerprint,
    t.keypairs.c.public_key,
    t.keypairs.c.created_at,
)


def list_for(connection: Connection, user_id: str) -> tuple[Keypair, ...]:
    """Return the key pairs of a user, sorted by name."""
    mine = sa.select(*_FIELDS).where(t.keypairs.c.user_id == user_id).order_by(t.keypairs.c.name)
    return tuple(Keypair(**row) for row in heeding(connection.execute(mine).mappings()))


def get(connection: Connection, user_id: str, name: str) -> Keypair:
    """Return a key pair. Raises: NotFound."""
    wanted = sa.select(*_FIELDS).where(t.keypairs.c.user_id == user_id, t.keypairs.c.name == name)
    row = connection.execute(wanted).mappings().first()
    if row is None:
        raise NotFound(f"Keypair {name} not found for user {user_id}.", name=name)
    return Keypair(**row)


def create(tx: Transaction, keypair: Keypair, *, limit: int) -> Keypair:
    """Store a key pair with a new id.

    Raises: Conflict if the name exists; OverQuota if the user has ``limit`` (-1: unlimited).
    """
    mine = sa.select(sa.func.count()).where(t.keypairs.c.user_id == keypair.user_id)
    if 0 <= limit <= tx.execute(mine).scalar_one():
        raise OverQuota("Quota exceeded, too many key pairs.", limit=limit)
    row = {
        "user_id": keypair.user_id,
        "name": keypair.name,
        "type": keypair.type,
        "fingerprint": keypair.fingerprint,
        "public_key": keypair.public_key,
        "created_at": tx.now,
    }
    if not insert_missing(tx, t.keypairs, row):
        raise Conflict(f"Key pair '{keypair.name}' already exists.", name=keypair.name)
    return get(tx.connection, keypair.user_id, keypair.name)


def delete(tx: Transaction, user_id: str, name: str) -> None:
    """Delete a key pair; servers keep the copy that they got. Raises: NotFound."""
    mine = sa.delete(t.keypairs).where(t.keypairs.c.user_id == user_id, t.keypairs.c.name == name)
    if tx.execute(mine).rowcount == 0:
        raise NotFound(f"Keypair {name} not found for user {user_id}.", name=name)
