# SPDX-License-Identifier: Apache-2.0
"""Tags of instances. A change of tags sets ``updated_at`` of the instance, as ``changes-since`` lists require."""

from collections.abc import Collection

import sqlalchemy as sa

from kilonova.db import instances
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction


def replace(tx: Transaction, uuid: str, tags: Collection[str]) -> None:
    """Replace all tags of an instance. Raises: NotFound."""
    # The instance is changed first: this raises NotFound for an unknown instance. An INSERT of its tags would raise the
    # error of a violated foreign key instead.
    instances.change(tx, uuid)
    tx.execute(sa.delete(t.instance_tags).where(t.instance_tags.c.instance_uuid == uuid))
    if tags:
        tx.execute(sa.insert(t.instance_tags), [{"instance_uuid": uuid, "tag": tag} for tag in tags])


def add(tx: Transaction, uuid: str, tag: str) -> None:
    """Add a tag to an instance, which must not have that tag yet. Raises: NotFound if there is no such instance."""
    instances.change(tx, uuid)
    tx.execute(sa.insert(t.instance_tags).values(instance_uuid=uuid, tag=tag))
