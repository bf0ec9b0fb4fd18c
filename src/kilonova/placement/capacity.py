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


class Capacities(Units, Protocol):
    """The same, and how much of each class a row may give in all; nothing of one that it lacks. Shape: (N, R)."""

    @property
    def capacity(self) -> IntArray: ...


def within_units(table: Units, column: int, amount: int) -> BoolArray:
    """Return which rows hand a class out in amounts like this one. Shapes: → (N,)."""
    allowed: BoolArray = (
        (table.min_unit[:, column] <= amount)
        & (table.max_unit[:, column] >= amount)
        & (amount % table.step_size[:, column] == 0)
    )
    return allowed


def most_used(table: Capacities, column: int, amount: int) -> IntArray:
    """Return what may be in use of a class so that ``amount`` more fits, less than nothing where it never does.

    Shapes: → (N,).
    """
    return np.where(within_units(table, column, amount), table.capacity[:, column] - amount, -1)


def has_room(table: ProviderTable, column: int, amount: int) -> BoolArray:
    """Return which providers may give ``amount`` of a class right now. Shapes: → (P,)."""
    most: IntArray = table.remember(("most used", column, amount), lambda: most_used(table, column, amount))
    room: BoolArray = table.used[:, column] <= most
    return room
