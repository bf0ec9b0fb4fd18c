# SPDX-License-Identifier: Apache-2.0
"""Shelved servers: the search for servers that are due for offloading, and the removal of their images."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import instances, unwanted_images
from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.transaction import Transaction
from kilonova.model.instance import Instance, VmState

_I = t.instances.c
_IMAGE = Prepared(sa.select(_I.shelved_image).where(_I.uuid == sa.bindparam("uuid")))


def due(connection: Connection, shelved_before: datetime, limit: int) -> tuple[Instance, ...]:
    """Return up to ``limit`` servers without a task, shelved before a time and not offloaded; oldest first."""
    waiting = _I.deleted.is_(False), _I.vm_state == VmState.SHELVED.value, _I.task_state.is_(None)
    old = sa.select(_I.uuid).where(*waiting, _I.shelved_at < shelved_before).order_by(_I.shelved_at).limit(limit)
    return instances.get_many(connection, list(connection.execute(old).scalars()))


def forget_image(tx: Transaction, instance_uuid: str) -> None:
    """Mark the image of a shelved server for removal, because the server will never be unshelved from it."""
    unwanted_images.note(
        tx, [image for (image,) in _IMAGE.rows(tx.connection, uuid=instance_uuid) if image is not None]
    )
