# SPDX-License-Identifier: Apache-2.0
"""The capacity rule: what may be taken from an inventory."""

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


def most_used(table: ProviderTable, column: int, amount: int) -> IntArray:
    """Return what may be in use of a class so that there is room for ``amount``, -1 where there never is.

    Shapes: → (P,).
    """

    def compute() -> IntArray:
        able = table.has_inventory[:, column] & within_units(table, column, amount)
        return np.where(able, table.capacity[:, column] - amount, -1)

    most: IntArray = table.remember(("most used", column, amount), compute)
    return most


def has_room(table: ProviderTable, column: int, amount: int) -> BoolArray:
    """Return which providers may give ``amount`` of a class right now. Shapes: → (P,)."""
    room: BoolArray = table.used[:, column] <= most_used(table, column, amount)
    return room
