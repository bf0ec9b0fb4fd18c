# SPDX-License-Identifier: Apache-2.0
"""Tags of instances. Whoever changes them has changed the instance, as lists by time of change see it."""

from collections.abc import Collection

import sqlalchemy as sa

from kilonova.db import instances
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction


def replace(tx: Transaction, uuid: str, tags: Collection[str]) -> None:
    """Give an instance these tags and no others. Raises: NotFound."""
    tx.execute(sa.delete(t.instance_tags).where(t.instance_tags.c.instance_uuid == uuid))
    if tags:
        tx.execute(sa.insert(t.instance_tags), [{"instance_uuid": uuid, "tag": tag} for tag in tags])
    instances.change(tx, uuid)


def add(tx: Transaction, uuid: str, tag: str) -> None:
    """Give an instance a tag that it does not have. Raises: NotFound."""
    tx.execute(sa.insert(t.instance_tags).values(instance_uuid=uuid, tag=tag))
    instances.change(tx, uuid)
