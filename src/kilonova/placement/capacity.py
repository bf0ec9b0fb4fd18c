# SPDX-License-Identifier: Apache-2.0
"""The capacity rule: what may be taken from an inventory."""

from collections.abc import Mapping

import numpy as np

from kilonova.placement.provider_table import BoolArray, ProviderTable


def units_allow(table: ProviderTable, column: int, amount: int) -> BoolArray:
    """Return which providers have the class and hand it out in amounts like this one. Shapes: → (P,)."""
    return table.remember(
        ("units", column, amount),
        lambda: (
            table.has_inventory[:, column]
            & (table.min_unit[:, column] <= amount)
            & (table.max_unit[:, column] >= amount)
            & (amount % table.step_size[:, column] == 0)
        ),
    )


def has_room(table: ProviderTable, column: int, amount: int) -> BoolArray:
    """Return which providers may give ``amount`` of a class right now. Shapes: → (P,)."""
    room: BoolArray = table.used[:, column] <= table.capacity[:, column] - amount
    return room & units_allow(table, column, amount)


def has_room_for_all(table: ProviderTable, amounts: Mapping[str, int]) -> BoolArray:
    """Return which providers may give every amount. A class that nobody has fits nowhere. Shapes: → (P,)."""
    fits = np.ones(len(table), dtype=np.bool_)
    for resource_class, amount in amounts.items():
        column = table.column(resource_class)
        if column is None:
            return np.zeros(len(table), dtype=np.bool_)
        fits &= has_room(table, column, amount)
    return fits
