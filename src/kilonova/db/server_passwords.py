# SPDX-License-Identifier: Apache-2.0
"""Administrator passwords of servers, encrypted with the server's public key and base64-encoded."""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction

#: Longest encrypted password, in characters; with an RSA key of 8192 bits it has 1368.
LONGEST = 2048
_TABLE = t.server_passwords


def find(connection: Connection, instance_uuid: str) -> str | None:
    """Return the encrypted password of a server, or None."""
    mine = sa.select(_TABLE.c.encrypted).where(_TABLE.c.instance_uuid == instance_uuid)
    return connection.execute(mine).scalar_one_or_none()


def store(tx: Transaction, instance_uuid: str, encrypted: str) -> None:
    """Replace the encrypted password of a server; "" deletes it."""
    clear(tx, instance_uuid)
    if encrypted:
        tx.execute(sa.insert(_TABLE), {"instance_uuid": instance_uuid, "encrypted": encrypted})


def clear(tx: Transaction, instance_uuid: str) -> None:
    """Delete the encrypted password of a server; no error if absent."""
    tx.execute(sa.delete(_TABLE).where(_TABLE.c.instance_uuid == instance_uuid))
