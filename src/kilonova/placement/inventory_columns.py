# SPDX-License-Identifier: Apache-2.0
"""Inventories and usage of records, as the columns of a table."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilonova.model.provider import Inventory


class InventoryColumns(NamedTuple):
    """The columns of host and provider tables that inventories and usage fill.

    Axes: N records, R resource classes in the order of their first inventory. A class that a record lacks has a total
    and a capacity of 0. Shapes: (N, R), contiguous by resource class.
    """

    resource_classes: tuple[str, ...]
    total: NDArray[np.int64]
    reserved: NDArray[np.int64]
    allocation_ratio: NDArray[np.float64]
    min_unit: NDArray[np.int64]
    max_unit: NDArray[np.int64]
    step_size: NDArray[np.int64]
    capacity: NDArray[np.int64]
    used: NDArray[np.int64]

    @classmethod
    def of(cls, inventories: Sequence[Sequence[Inventory]], usage: Sequence[Mapping[str, int]]) -> "InventoryColumns":
        """Return the columns of records. ``usage``: resource class → amount, of each record."""
        names = dict.fromkeys(each.resource_class for some in inventories for each in some)
        classes = {name: column for column, name in enumerate(names)}
        shape = len(inventories), len(classes)
        total, reserved, used, capacity = (np.zeros(shape, dtype=np.int64, order="F") for _ in range(4))
        min_unit, max_unit, step_size = (np.ones(shape, dtype=np.int64, order="F") for _ in range(3))
        ratio = np.ones(shape, dtype=np.float64, order="F")
        for row, (some, amounts) in enumerate(zip(inventories, usage, strict=True)):
            for each in some:
                at = row, classes[each.resource_class]
                total[at], reserved[at], ratio[at] = each.total, each.reserved, each.allocation_ratio
                min_unit[at], max_unit[at], step_size[at] = each.min_unit, each.max_unit, each.step_size
                capacity[at] = each.capacity
            for name, amount in amounts.items():
                used[row, classes[name]] = amount
        return cls(tuple(classes), total, reserved, ratio, min_unit, max_unit, step_size, capacity, used)


def bits_by_name(sets: Sequence[frozenset[str]]) -> tuple[dict[str, int], NDArray[np.bool_]]:
    """Return name → row of the bits, and which sets contain the name. Shapes: bits (names, sets)."""
    rows = {name: row for row, name in enumerate(sorted(frozenset().union(*sets)))}
    bits = np.zeros((len(rows), len(sets)), dtype=np.bool_)
    for column, names in enumerate(sets):
        bits[[rows[name] for name in names], column] = True
    return rows, bits
