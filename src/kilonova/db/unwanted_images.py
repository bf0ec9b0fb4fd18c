# SPDX-License-Identifier: Apache-2.0
"""Images that Kilonova registered and nobody needs: the work of somebody who has the image service's ear.

Noted in the transaction that makes them needless, so that none is forgotten, and nobody waits for the image service.
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
    """Have images removed; noted already is success."""
    for image_id in image_ids:
        insert_missing(tx, t.unwanted_images, {"image_id": image_id, "created_at": tx.now})


def oldest(connection: Connection, limit: int) -> tuple[str, ...]:
    """Return some of the images that are to be removed, those that have waited longest first."""
    return tuple(row[0] for row in _OLDEST.rows(connection, limit=limit))


def forget(tx: Transaction, image_ids: Collection[str]) -> None:
    """Note that images are gone."""
    tx.execute(sa.delete(t.unwanted_images).where(_U.image_id.in_(list(image_ids))))
