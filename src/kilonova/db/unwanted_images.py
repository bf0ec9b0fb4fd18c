# SPDX-License-Identifier: Apache-2.0
"""Images that Kilonova registered and no longer needs; a periodic task removes them from the image service.

An image is recorded in the transaction that makes it unneeded, so that no image is forgotten and no request waits for
the image service.
"""

from collections.abc import Collection, Iterable

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.statements import insert_missing
from kilonova.db.core.transaction import Transaction

_U = t.unwanted_images.c
_OLDEST = Prepared(sa.select(_U.image_id).order_by(_U.created_at, _U.image_id).limit(sa.bindparam("limit")))


def note(tx: Transaction, image_ids: Iterable[str]) -> None:
    """Mark images for removal; no error if already marked."""
    for image_id in image_ids:
        insert_missing(tx, t.unwanted_images, {"image_id": image_id, "created_at": tx.now})


def oldest(connection: Connection, limit: int) -> tuple[str, ...]:
    """Return up to ``limit`` images marked for removal, oldest first."""
    return tuple(row[0] for row in _OLDEST.rows(connection, limit=limit))


def forget(tx: Transaction, image_ids: Collection[str]) -> None:
    """Delete the marks of images that have been removed."""
    tx.execute(sa.delete(t.unwanted_images).where(_U.image_id.in_(list(image_ids))))
