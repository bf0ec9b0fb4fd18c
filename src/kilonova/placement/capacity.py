# SPDX-License-Identifier: Apache-2.0
"""The capacity rule: what may be taken from an inventory."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from kilonova.placement.provider_table import BoolArray, IntArray, ProviderTable


class Units(Protocol):
    """What one allocation may be, of each row of a table and class. Shapes: (N, R)."""

    @property
    def min_unit(self) -> IntArray: ...

    @property
    def max_unit(self) -> IntArray: ...

    @property
    def step_size(self) -> IntArray: ...


def within_units(table: Units, column: int, amount: int) -> BoolArray:
    """Return which rows hand a class out in amounts like this one. Shapes: → (N,)."""
    allowed: BoolArray = (
        (table.min_unit[:, column] <= amount)
        & (table.max_unit[:, column] >= amount)
        & (amount % table.step_size[:, column] == 0)
    )
    return allowed


def units_allow(table: ProviderTable, column: int, amount: int) -> BoolArray:
    """Return which providers have the class and hand it out in amounts like this one. Shapes: → (P,)."""
    return table.remember(
        ("units", column, amount),
        lambda: table.has_inventory[:, column] & within_units(table, column, amount),
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
