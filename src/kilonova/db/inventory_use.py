# SPDX-License-Identifier: Apache-2.0
"""Changes of ``inventories.used``, guarded by the capacity. Apart from repairs, no other code changes this column.

The guard is a condition of the UPDATE of each row, so no interleaving of transactions can exceed a capacity.
"""

from collections.abc import Callable, Mapping

import sqlalchemy as sa

from kilonova.db.core import tables as t
from kilonova.db.core.statements import ManyRows
from kilonova.db.core.transaction import Transaction

#: Key of an inventory: (provider id, resource class id).
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
    """Add amounts, which may be negative, to the usage of inventories.

    Returns False if an inventory is missing or its capacity would be exceeded. The usage of the other inventories is
    changed nevertheless, so the caller must roll back unless all amounts are negative. Rows are updated in sorted order
    to avoid deadlocks.
    """
    return send_change(tx, amounts)()


def send_change(tx: Transaction, amounts: Mapping[InventoryKey, int]) -> Callable[[], bool]:
    """Send the statement of :func:`change`, and return a function for the answer."""
    rows = [
        {"provider": provider_id, "class_id": class_id, "amount": amount}
        for (provider_id, class_id), amount in sorted(amounts.items())
        if amount
    ]
    if not rows:
        return lambda: True
    sent = _CHANGE.send(tx, rows)
    return lambda: sent.count() == len(rows)
