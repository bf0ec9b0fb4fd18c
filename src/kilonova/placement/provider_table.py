# SPDX-License-Identifier: Apache-2.0
"""The provider table: one row per resource provider, one array per attribute.

Axes: P providers, R resource classes, T traits, G placement aggregates.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kilonova.model.provider import Inventory
from kilonova.placement.inventory_columns import InventoryColumns, bits_by_name
from kilonova.records import dataclass

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
T = TypeVar("T")

#: Limits of a table's memo: the number of results, and their total size in bytes. A result counts 8 bytes per provider.
_MEMO_LIMIT, _MEMO_BYTES = 256, 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTable:
    """A snapshot of all resource providers, in order of creation.

    ``uuids``: (P,). ``row_of``: uuid → row.
    ``parent``: (P,) row of the parent, -1 for a root. ``root``: (P,) row of the tree's root, its own for a root.
    ``total`` … ``capacity``, ``used``: (P, R) int64; a class that a provider lacks has capacity 0 and total 0.
    ``has_inventory``: (P, R) bool, whether a provider has an inventory of a class (which may have capacity 0).
    ``trait_rows``: trait → row of ``trait_bits`` (T, P).
    ``aggregate_rows``: aggregate uuid → row of ``aggregate_bits`` (G, P).
    ``version``: a number that changes whenever a column other than ``used`` changes.
    ``memo``: cache of results computed from all columns except ``used``; tables of one version share it.
    """

    uuids: tuple[str, ...]
    row_of: Mapping[str, int]
    parent: IntArray
    root: IntArray
    resource_classes: tuple[str, ...]
    has_inventory: BoolArray
    total: IntArray
    reserved: IntArray
    allocation_ratio: FloatArray
    min_unit: IntArray
    max_unit: IntArray
    step_size: IntArray
    capacity: IntArray
    used: IntArray
    trait_rows: Mapping[str, int]
    trait_bits: BoolArray
    aggregate_rows: Mapping[str, int]
    aggregate_bits: BoolArray
    version: int = 0
    memo: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.uuids)

    def column(self, resource_class: str) -> int | None:
        """Return the column index of a resource class, or None if the table has no such class."""
        columns: dict[str, int] = self.remember("columns", lambda: {n: i for i, n in enumerate(self.resource_classes)})
        return columns.get(resource_class)

    def remember(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the result for ``key``, computed once per version. The result must not depend on ``used``."""
        try:
            answer: T = self.memo[key]
        except KeyError:
            if len(self.memo) >= min(_MEMO_LIMIT, _MEMO_BYTES // (8 * max(1, len(self)))):
                self.memo.clear()
            answer = self.memo[key] = compute()
        return answer

    def count(self, uuid: str, amounts: Mapping[str, int]) -> None:
        """Add ``amounts`` to the usage of a provider; an unknown provider is ignored.

        The method changes the array ``used``, so the caller must own this array.
        """
        row = self.row_of.get(uuid)
        for name, amount in amounts.items() if row is not None else ():
            column = self.column(name)
            if column is not None:
                self.used[row, column] += amount

    def has_any_trait(self, traits: Collection[str]) -> BoolArray:
        """Return which providers have at least one of ``traits``. Shapes: → (P,)."""
        return _any_row(self.trait_bits, self.trait_rows, traits, len(self))

    def in_any_aggregate(self, aggregates: Collection[str]) -> BoolArray:
        """Return the providers that are direct members of at least one of ``aggregates``. Shapes: → (P,)."""
        return _any_row(self.aggregate_bits, self.aggregate_rows, aggregates, len(self))


def _any_row(bits: BoolArray, rows: Mapping[str, int], names: Collection[str], count: int) -> BoolArray:
    wanted = [rows[name] for name in names if name in rows]
    if not wanted:
        return np.zeros(count, dtype=np.bool_)
    return np.asarray(bits[wanted[0]] if len(wanted) == 1 else bits[wanted].any(axis=0))


@dataclass(frozen=True, slots=True)
class ProviderRecord:
    """The attributes of one provider, from which a scenario or a test builds a table."""

    uuid: str
    parent: str | None = None
    inventories: tuple[Inventory, ...] = ()
    used: Mapping[str, int] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()


def build_provider_table(records: Sequence[ProviderRecord]) -> ProviderTable:
    """Build a table with one row per record, in the given order."""
    row_of = {record.uuid: row for row, record in enumerate(records)}
    parent = np.array([-1 if r.parent is None else row_of[r.parent] for r in records], dtype=np.int64)
    root = np.arange(len(records), dtype=np.int64)
    while (parent[root] >= 0).any():
        root = np.where(parent[root] >= 0, parent[root], root)
    columns = InventoryColumns.of([record.inventories for record in records], [record.used for record in records])
    has_inventory = np.zeros(columns.total.shape, dtype=np.bool_)
    for row, record in enumerate(records):
        for inventory in record.inventories:
            has_inventory[row, columns.resource_classes.index(inventory.resource_class)] = True
    trait_rows, trait_bits = bits_by_name([record.traits for record in records])
    aggregate_rows, aggregate_bits = bits_by_name([record.aggregates for record in records])
    return ProviderTable(
        uuids=tuple(row_of),
        row_of=row_of,
        parent=parent,
        root=root,
        has_inventory=has_inventory,
        trait_rows=trait_rows,
        trait_bits=trait_bits,
        aggregate_rows=aggregate_rows,
        aggregate_bits=aggregate_bits,
        **columns._asdict(),
    )
