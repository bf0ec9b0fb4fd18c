# SPDX-License-Identifier: Apache-2.0
"""Placement's capacity rule: which amounts can be allocated from an inventory."""

from typing import Protocol

import numpy as np

from kilonova.placement.provider_table import BoolArray, IntArray, ProviderTable


class Units(Protocol):
    """The limits of a single allocation, by row and resource class. Shapes: (N, R)."""

    @property
    def min_unit(self) -> IntArray: ...

    @property
    def max_unit(self) -> IntArray: ...

    @property
    def step_size(self) -> IntArray: ...


class Capacities(Units, Protocol):
    """The limits of a single allocation, and the capacity (0 without inventory), by row and class. Shapes: (N, R)."""

    @property
    def capacity(self) -> IntArray: ...


def within_units(table: Units, column: int, amount: int) -> BoolArray:
    """Return the rows whose min_unit, max_unit and step_size allow ``amount`` of a class. Shapes: → (N,)."""
    allowed: BoolArray = (
        (table.min_unit[:, column] <= amount)
        & (table.max_unit[:, column] >= amount)
        & (amount % table.step_size[:, column] == 0)
    )
    return allowed


def most_used(table: Capacities, column: int, amount: int) -> IntArray:
    """Return, for each row, the largest usage of a class at which another allocation of ``amount`` fits.

    The result is negative if ``amount`` never fits. Shapes: → (N,).
    """
    return np.where(within_units(table, column, amount), table.capacity[:, column] - amount, -1)


def has_room(table: ProviderTable, column: int, amount: int) -> BoolArray:
    """Return the providers that currently have room for ``amount`` of a class. Shapes: → (P,)."""
    most: IntArray = table.remember(("most used", column, amount), lambda: most_used(table, column, amount))
    room: BoolArray = table.used[:, column] <= most
    return room
