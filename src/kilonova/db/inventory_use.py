# SPDX-License-Identifier: Apache-2.0
"""The one place that changes what is used of inventories, with the guard that keeps it within their capacity.

The guard is part of the UPDATE of each row, so no interleaving of writers can exceed a capacity.
"""

from collections.abc import Mapping

import sqlalchemy as sa

from kilonova.db.core import tables as t
from kilonova.db.core.statements import ManyRows
from kilonova.db.core.transaction import Transaction

#: (provider id, resource class id)
InventoryKey = tuple[int, int]

_INVENTORY = t.inventories.c
_CHANGE = ManyRows(
    {"provider": sa.BigInteger(), "class_id": sa.BigInteger(), "amount": sa.BigInteger()},
    lambda given: (
        sa.update(t.inventories)
        .where(
            _INVENTORY.resource_provider_id == given["provider"],
            _INVENTORY.resource_class_id == given["class_id"],
            (given["amount"] < 0) | (_INVENTORY.used + given["amount"] <= _INVENTORY.capacity),
        )
        .values(used=_INVENTORY.used + given["amount"])
    ),
)


def change(tx: Transaction, amounts: Mapping[InventoryKey, int]) -> bool:
    """Add to what is used of each inventory, or give back what is below 0. Rows are taken in the same order by all.

    Returns False when one is gone or would be used beyond its capacity; others are changed then, and the caller has to
    roll back unless it was only giving back.
    """
    rows = [
        {"provider": provider_id, "class_id": class_id, "amount": amount}
        for (provider_id, class_id), amount in sorted(amounts.items())
        if amount
    ]
    return _CHANGE.run(tx, rows) == len(rows)
