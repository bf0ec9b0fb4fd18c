# SPDX-License-Identifier: Apache-2.0
"""Placement's capacity rule: which amounts can be allocated from an inventory."""

from typing import NamedTuple, Protocol

import numpy as np

from kilonova.placement.provider_table import BoolArray, IntArray, ProviderTable

_MANY = 1_024


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
    allowed: BoolArray = (table.min_unit[:, column] <= amount) & (table.max_unit[:, column] >= amount)
    steps = table.step_size[:, column]
    if len(steps) < _MANY or steps.max() > 1:  # a division takes longer than everything else
        allowed &= amount % steps == 0
    return allowed


class CommonUnits(NamedTuple):
    """Limits of a single allocation that allow an amount on each row with inventory, if they allow it.

    ``step_size``: 0 if the rows have several step sizes.
    """

    min_unit: int
    max_unit: int
    step_size: int

    @classmethod
    def of(cls, table: Capacities, column: int) -> "CommonUnits":
        """Return the limits that are common to all rows with an inventory of a class."""
        held = table.capacity[:, column] > 0
        rows = slice(None) if held.all() else held
        min_unit, max_unit, steps = (each[rows, column] for each in (table.min_unit, table.max_unit, table.step_size))
        if not len(steps):
            return cls(0, 0, 0)
        step = int(steps[0])
        return cls(int(min_unit.max()), int(max_unit.min()), step if (steps == step).all() else 0)

    def allow(self, amount: int) -> bool:
        """Tell whether every row with inventory allows an amount. False: some of them may allow it."""
        return self.min_unit <= amount <= self.max_unit and self.step_size > 0 and not amount % self.step_size


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
