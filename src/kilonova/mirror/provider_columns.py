# SPDX-License-Identifier: Apache-2.0
"""Providers as growing columns. Rows are dense and in order of their ids; removal closes the gap.

Axes: P providers, R resource classes, T traits, G placement aggregates.
"""

import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilonova.placement.provider_table import ProviderTable

_FIELDS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio", "capacity", "used")
_DEFAULTS: Mapping[str, float] = {"min_unit": 1, "max_unit": 1, "step_size": 1, "allocation_ratio": 1.0}
_SLACK = 64


class ProviderColumns:
    """The mutable side of :class:`ProviderTable`.

    ``view_used`` is what the database holds as used plus what claims under way have assumed.
    """

    def __init__(self) -> None:
        self.uuids: list[str] = []
        self.row_of: dict[str, int] = {}
        self.generations: list[int] = []
        self.names: list[str] = []
        self.ids: list[int] = []
        self._parents: list[str | None] = []
        self._roots: list[str] = []
        self.traits: list[frozenset[str]] = []
        self.aggregates: list[frozenset[str]] = []
        self.classes: list[str] = []
        self._column: dict[str, int] = {}
        self._sets: dict[Any, frozenset[str]] = {}
        self._arrays: dict[str, NDArray[Any]] = {name: _empty(name, (_SLACK, 0)) for name in _FIELDS}
        self._has: NDArray[np.bool_] = np.zeros((_SLACK, 0), dtype=np.bool_)
        self.view_used: NDArray[np.int64] = np.zeros((_SLACK, 0), dtype=np.int64)
        #: Changes whenever anything but use does.
        self.version = 0
        self._static: ProviderTable | None = None
        #: (row, column, figures) of inventories that are to be stored together, while that lasts.
        self._waiting: list[tuple[int, int, Sequence[Any]]] | None = None

    def __len__(self) -> int:
        return len(self.uuids)

    def array(self, name: str) -> NDArray[Any]:
        """Return the live rows of one inventory column. Shapes: → (P, R)."""
        return self._arrays[name][: len(self.uuids)]

    def column(self, resource_class: str) -> int:
        """Return the column of a class, adding it when it is new."""
        column = self._column.get(resource_class)
        if column is None:
            column = self._column[resource_class] = len(self.classes)
            self.classes.append(resource_class)
            self._resize((len(self.view_used), len(self.classes)))
            self._changed()
        return column

    def set(self, uuid: str, value: Mapping[str, Any]) -> None:
        """Insert or replace a provider from its logged value."""
        row = self.row_of.get(uuid)
        if row is None:
            row = self._insert(uuid, value["id"])
        self.ids[row], self.names[row], self.generations[row] = value["id"], value["name"], value["generation"]
        self._parents[row], self._roots[row] = value["parent"], value["root"]
        self.traits[row] = self._interned(value["traits"])
        self.aggregates[row] = self._interned(value["aggregates"])
        for resource_class in value["inventories"]:
            self.column(resource_class)
        if self._waiting is not None:
            self._waiting += ((row, self._column[name], figures) for name, figures in value["inventories"].items())
            return
        assumed = self.view_used[row] - self._arrays["used"][row]
        for name in _FIELDS:
            self._arrays[name][row] = _DEFAULTS.get(name, 0)
        self._has[row] = False
        for resource_class, figures in value["inventories"].items():
            column = self._column[resource_class]
            self._has[row, column] = True
            for name, figure in zip(_FIELDS, figures, strict=True):
                self._arrays[name][row, column] = figure
        self.view_used[row] = self._arrays["used"][row] + assumed
        self._changed()

    @contextmanager
    def filling(self) -> Iterator[None]:
        """While new providers are set in the order of their ids, nothing else: keep figures, store them in one go."""
        waiting: list[tuple[int, int, Sequence[Any]]] = []
        self._waiting = waiting
        try:
            yield
        finally:
            self._waiting = None
        if not waiting:
            return
        rows, columns, figures = zip(*waiting, strict=True)
        for name, values in zip(_FIELDS, zip(*figures, strict=True), strict=True):
            self._arrays[name][rows, columns] = values
        self._has[rows, columns] = True
        self.view_used[rows, columns] = self._arrays["used"][rows, columns]
        self._changed()

    def set_usage(self, uuid: str, generation: int, used: Mapping[str, int]) -> None:
        """Take over the use of a provider as the database has it now."""
        row = self.row_of.get(uuid)
        if row is None:
            return
        self.generations[row] = generation
        confirmed = self._arrays["used"]
        for resource_class, amount in used.items():
            column = self.column(resource_class)
            confirmed = self._arrays["used"]
            self.view_used[row, column] += amount - confirmed[row, column]
            confirmed[row, column] = amount

    def assume(self, uuid: str, resources: Mapping[str, int], sign: int) -> None:
        """Add (or with sign -1 take back) use that a claim under way expects."""
        row = self.row_of.get(uuid)
        if row is not None:
            for resource_class, amount in resources.items():
                column = self.column(resource_class)
                self.view_used[row, column] += sign * amount

    def remove(self, uuid: str) -> None:
        """Drop a provider; absent is success."""
        row = self.row_of.pop(uuid, None)
        if row is None:
            return
        for items in (self.uuids, *self._lists()):
            del items[row]
        for name, array in self._arrays.items():
            array[row:-1] = array[row + 1 :]
            array[-1] = _DEFAULTS.get(name, 0)
        self._has[row:-1] = self._has[row + 1 :]
        self._has[-1] = False
        self.view_used[row:-1] = self.view_used[row + 1 :]
        self.view_used[-1] = 0
        for later in range(row, len(self.uuids)):
            self.row_of[self.uuids[later]] = later
        self._changed()

    def table(self) -> ProviderTable:
        """Return a frozen view; only ``used`` is copied when nothing else changed."""
        count = len(self.uuids)
        static = self._static
        if static is None:
            static = self._static = self._build()
        used = self.view_used[:count].copy(order="K")
        return ProviderTable(
            **{name: getattr(static, name) for name in ProviderTable.__dataclass_fields__ if name != "used"}, used=used
        )

    def _build(self) -> ProviderTable:
        count = len(self.uuids)
        trait_rows, trait_bits = _bits(self.traits)
        aggregate_rows, aggregate_bits = _bits(self.aggregates)
        parent = np.array([-1 if uuid is None else self.row_of.get(uuid, -1) for uuid in self._parents], dtype=np.int64)
        root = np.array([self.row_of.get(uuid, row) for row, uuid in enumerate(self._roots)], dtype=np.int64)
        figures: dict[str, Any] = {name: self._arrays[name][:count].copy(order="K") for name in _FIELDS}
        return ProviderTable(
            uuids=tuple(self.uuids),
            row_of=dict(self.row_of),
            parent=parent,
            root=root,
            resource_classes=tuple(self.classes),
            has_inventory=self._has[:count].copy(order="K"),
            trait_rows=trait_rows,
            trait_bits=trait_bits,
            aggregate_rows=aggregate_rows,
            aggregate_bits=aggregate_bits,
            version=self.version,
            **figures,
        )

    def _insert(self, uuid: str, provider_id: int) -> int:
        """Make an empty row at the place of its id: mostly the last, but a commit may log them in any order."""
        count = len(self.uuids)
        row = bisect.bisect(self.ids, provider_id)
        self._grow(count + 1)
        self.uuids.insert(row, uuid)
        for items in self._lists():
            items.insert(row, provider_id if items is self.ids else None)
        if row < count:
            for array in (*self._arrays.values(), self._has, self.view_used):
                array[row + 1 : count + 1] = array[row:count]
            for name, array in self._arrays.items():
                array[row] = _DEFAULTS.get(name, 0)
            self._has[row] = False
            self.view_used[row] = 0
        for later in range(row, count + 1):
            self.row_of[self.uuids[later]] = later
        return row

    def _lists(self) -> tuple[list[Any], ...]:
        return self.generations, self.ids, self.names, self._parents, self._roots, self.traits, self.aggregates

    def _changed(self) -> None:
        self.version += 1
        self._static = None

    def _grow(self, rows: int) -> None:
        if rows <= len(self.view_used):
            return
        self._resize((2 * len(self.view_used), len(self.classes)))

    def _resize(self, shape: tuple[int, int]) -> None:
        """Make room. Columns are kept in Fortran order: the scheduler reads one resource class at a time."""
        for name, array in self._arrays.items():
            self._arrays[name] = _copied_into(_empty(name, shape), array)
        self._has = _copied_into(np.zeros(shape, dtype=np.bool_, order="F"), self._has)
        self.view_used = _copied_into(np.zeros(shape, dtype=np.int64, order="F"), self.view_used)

    def _interned(self, names: Iterable[str]) -> frozenset[str]:
        if isinstance(names, tuple):  # which a load brings, the same one for many providers
            known = self._sets.get(names)
            if known is None:
                known = self._sets[names] = self._interned(frozenset(names))
            return known
        wanted = frozenset(names)
        return self._sets.setdefault(wanted, wanted)


def _empty(name: str, shape: tuple[int, int]) -> NDArray[Any]:
    kind: Any = np.float64 if name == "allocation_ratio" else np.int64
    return np.full(shape, _DEFAULTS.get(name, 0), dtype=kind, order="F")


def _copied_into(larger: NDArray[Any], array: NDArray[Any]) -> NDArray[Any]:
    larger[: array.shape[0], : array.shape[1]] = array
    return larger


def _bits(sets: list[frozenset[str]]) -> tuple[dict[str, int], NDArray[np.bool_]]:
    """Lay sets of names out as bits. Shapes: P sets → (N, P)."""
    rows: dict[str, int] = {}
    for names in set(sets):
        for name in sorted(names):
            rows.setdefault(name, len(rows))
    bits = np.zeros((len(rows), len(sets)), dtype=np.bool_)
    columns: dict[frozenset[str], list[int]] = {}
    for column, names in enumerate(sets):
        columns.setdefault(names, []).append(column)
    for names, members in columns.items():
        for name in names:
            bits[rows[name], members] = True
    return rows, bits
