# SPDX-License-Identifier: Apache-2.0
"""Growing columns of resource providers. Rows are sorted by provider id, without gaps; a removal moves later rows up.

Axes: P providers, R resource classes, T traits, G placement aggregates.
"""

import bisect
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilonova.db.change_log.changes import LoggedProvider
from kilonova.placement.provider_table import ProviderTable

_INVENTORY = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio", "capacity")
#: Order of an inventory's numbers in the change log.
_FIGURES = (*_INVENTORY, "used")
_DEFAULTS: Mapping[str, float] = {"min_unit": 1, "max_unit": 1, "step_size": 1, "allocation_ratio": 1.0}
_NO_INVENTORY: tuple[Any, ...] = tuple(_DEFAULTS.get(name, 0) for name in _INVENTORY)
_SLACK = 64
_STORED_TOGETHER = 8_192


class ProviderColumns:
    """The mutable columns from which :class:`ProviderTable` is built.

    A table shares all arrays except ``used`` with the columns (copy on write): call ``_own`` before changing an array.
    ``used``: usage in the database. ``view_used``: usage in the database plus assumed claims. Shapes: (P, R).
    """

    def __init__(self) -> None:
        self.uuids: list[str] = []
        self.row_of: dict[str, int] = {}
        self.ids = array("q")
        self.traits: list[frozenset[str]] = []
        self.aggregates: list[frozenset[str]] = []
        self.classes: list[str] = []
        #: For child providers only: provider uuid → parent uuid, and provider uuid → root uuid.
        self._parents: dict[str, str] = {}
        self._roots: dict[str, str] = {}
        self._column: dict[str, int] = {}
        self._sets: dict[Any, frozenset[str]] = {}
        # These arrays have spare rows at the end.
        self._inventory: dict[str, NDArray[Any]] = {name: _empty(name, (_SLACK, 0)) for name in _INVENTORY}
        self._has: NDArray[np.bool_] = np.zeros((_SLACK, 0), dtype=np.bool_)
        self._used: NDArray[np.int64] = np.zeros((_SLACK, 0), dtype=np.int64)
        self._view_used: NDArray[np.int64] = np.zeros((_SLACK, 0), dtype=np.int64)
        self._view_elements()
        #: Version number: every change increments it, except changes of usage.
        self.version = 0
        #: Constructor arguments that all tables of this version share; None after a change, until a table is built.
        self._static: dict[str, Any] | None = None
        self._shared = False
        #: The cached read-only table; None after a change, until the table is built again.
        self._table: ProviderTable | None = None
        #: Batch of (row, column, numbers) of inventories that are not in the arrays yet; None outside ``filling``.
        self._waiting: list[tuple[int, int, Sequence[Any]]] | None = None

    def __len__(self) -> int:
        return len(self.uuids)

    @property
    def used(self) -> NDArray[np.int64]:
        return self._used[: len(self.uuids)]

    @property
    def view_used(self) -> NDArray[np.int64]:
        return self._view_used[: len(self.uuids)]

    def column(self, resource_class: str) -> int:
        """Return the column index of a resource class. A new class gets a new column."""
        column = self._column.get(resource_class)
        if column is None:
            column = self._column[resource_class] = len(self.classes)
            self.classes.append(resource_class)
            self._resize(len(self._used))
            self._changed()
        return column

    def find_id(self, uuid: str) -> int | None:
        """Return the database id of a provider, or None if the provider is unknown."""
        row = self.row_of.get(uuid)
        return None if row is None else self.ids[row]

    def set(self, uuid: str, value: LoggedProvider) -> None:
        """Insert a provider from its change log value; a provider with the same uuid is replaced and keeps its id."""
        row = self.row_of.get(uuid)
        if row is None:
            self._own()
            row = self._insert(uuid, value.id)
        _keep_unless(self._parents, uuid, value.parent, None)
        _keep_unless(self._roots, uuid, value.root, uuid)
        self.traits[row] = self._interned(value.traits)
        self.aggregates[row] = self._interned(value.aggregates)
        for resource_class in value.inventories:
            self.column(resource_class)
        if self._waiting is not None:
            self._waiting += ((row, self._column[name], figures) for name, figures in value.inventories.items())
            if len(self._waiting) >= _STORED_TOGETHER:
                self._store(self._waiting)
            return
        self._changed()
        self._set_inventories(row, {self._column[name]: figures for name, figures in value.inventories.items()})

    def _set_inventories(self, row: int, wanted: Mapping[int, Sequence[Any]]) -> None:
        """Replace the inventories of a row. ``wanted``: column → figures.

        Arrays that tables share are copied only if a figure other than the usage changes: most writes change the traits
        or the aggregates of a provider, not its inventories.
        """
        held = self._has[row].nonzero()[0].tolist()
        gone = [column for column in held if column not in wanted]
        figures = self._inventory_figures
        changed = [
            column
            for column, numbers in wanted.items()
            if column not in held or any(view[row, column] != number for view, number in zip(figures, numbers))  # noqa: B905 - without the usage
        ]
        if gone or changed:
            self._own()
            for column in changed:
                self._has[row, column] = True
                for view, number in zip(self._inventory_figures, wanted[column]):  # noqa: B905 - without the usage
                    view[row, column] = number
            for column in gone:
                self._has[row, column] = False
                for view, number in zip(self._inventory_figures, _NO_INVENTORY, strict=True):
                    view[row, column] = number
                self._count_used(row, column, 0)
        for column, numbers in wanted.items():
            self._count_used(row, column, numbers[-1])

    def _count_used(self, row: int, column: int, amount: int) -> None:
        """Store the used amount of an inventory in the database. Assumed claims are kept."""
        at = row, column
        self._view_figures[at] += amount - self._used_figures[at]
        self._used_figures[at] = amount

    @contextmanager
    def filling(self) -> Iterator[None]:
        """Context manager in which :meth:`set` stores the inventories of new providers in batches.

        The caller must call only :meth:`set`, in the order of provider ids.
        """
        waiting: list[tuple[int, int, Sequence[Any]]] = []
        self._waiting = waiting
        try:
            yield
        finally:
            self._waiting = None
        self._store(waiting)
        self._resize(len(self.uuids) + _SLACK)
        self._changed()

    def _store(self, waiting: list[tuple[int, int, Sequence[Any]]]) -> None:
        if not waiting:
            return
        rows, classes, figures = zip(*waiting, strict=True)
        for columns, values in zip(self._figures(), zip(*figures, strict=True), strict=True):
            columns[rows, classes] = values
        self._has[rows, classes] = True
        self._view_used[rows, classes] = self._used[rows, classes]
        waiting.clear()

    def set_usage(self, uuid: str, used: Mapping[str, int]) -> None:
        """Store the usage that a provider has in the database."""
        row = self.row_of.get(uuid)
        if row is None:
            return
        for resource_class, amount in used.items():
            column = self._column.get(resource_class)
            if column is None:
                column = self.column(resource_class)
            self._count_used(row, column, amount)
        self._table = None

    def assume(self, uuid: str, resources: Mapping[str, int], sign: int) -> None:
        """Add the assumed usage of a pending claim to a provider. ``sign``: 1; -1 removes the usage."""
        row = self.row_of.get(uuid)
        if row is not None:
            for resource_class, amount in resources.items():
                column = self._column.get(resource_class)
                if column is None:
                    column = self.column(resource_class)
                self._view_figures[row, column] += sign * amount
            self._table = None

    def remove(self, uuid: str) -> None:
        """Remove a provider. Not an error if the provider is absent."""
        row = self.row_of.get(uuid)
        if row is None:
            return
        self._own()
        del self.row_of[uuid]
        for items in (self.uuids, self.ids, self.traits, self.aggregates):
            del items[row]
        self._parents.pop(uuid, None)
        self._roots.pop(uuid, None)
        for columns in self._every():
            columns[row:-1] = columns[row + 1 :]
        self._clear(-1)
        self._view_used[-1] = 0
        self._number_from(row)
        self._changed()

    def table(self) -> ProviderTable:
        """Return a table whose ``used`` the caller may modify.

        If only usage has changed since the last table, only ``used`` is new; the tables share all other arrays.
        """
        return ProviderTable(**self._shared_columns(), used=self.view_used.copy(order="K"))

    def live_table(self) -> ProviderTable:
        """Return a table that shares ``used``, too: use it only as long as usage does not change."""
        return ProviderTable(**self._shared_columns(), used=self.view_used)

    def _shared_columns(self) -> dict[str, Any]:
        static = self._static
        if static is None:
            built = self._build()
            names = ProviderTable.__dataclass_fields__.keys() - {"used"}
            static = self._static = {name: getattr(built, name) for name in names}
        return static

    def shared_table(self) -> ProviderTable:
        """Return a read-only table. The table is cached until the next change."""
        table = self._table
        if table is None:
            table = self._table = self.table()
            table.used.flags.writeable = False
        return table

    def _build(self) -> ProviderTable:
        count = len(self.uuids)
        trait_rows, trait_bits = _bits(self.traits)
        aggregate_rows, aggregate_bits = _bits(self.aggregates)
        parent = np.full(count, -1, dtype=np.int64)
        for uuid, of in self._parents.items():
            parent[self.row_of[uuid]] = self.row_of.get(of, -1)
        root = np.arange(count, dtype=np.int64)
        for uuid, of in self._roots.items():
            root[self.row_of[uuid]] = self.row_of.get(of, self.row_of[uuid])
        inventory: dict[str, Any] = {name: column[:count] for name, column in self._inventory.items()}
        self._shared = True
        return ProviderTable(
            uuids=tuple(self.uuids),
            row_of=self.row_of,
            parent=parent,
            root=root,
            resource_classes=tuple(self.classes),
            has_inventory=self._has[:count],
            used=self.view_used,  # shares memory with the column; the method ``table`` replaces it by a copy
            trait_rows=trait_rows,
            trait_bits=trait_bits,
            aggregate_rows=aggregate_rows,
            aggregate_bits=aggregate_bits,
            version=self.version,
            **inventory,
        )

    def _own(self) -> None:
        """Copy the arrays that earlier tables share, so that the columns can be changed."""
        if self._shared:
            self.row_of = dict(self.row_of)
            self._inventory = {name: column.copy(order="K") for name, column in self._inventory.items()}
            self._has = self._has.copy(order="K")
            self._shared = False
            self._view_elements()

    def _insert(self, uuid: str, provider_id: int) -> int:
        """Insert an empty row for a provider, and return its index.

        It is usually the last row, but a commit may log providers in any order, and rows are sorted by provider id.
        """
        count = len(self.uuids)
        row = bisect.bisect(self.ids, provider_id)
        if count == len(self._used):
            self._resize(count * 5 // 4 + _SLACK)
        self.uuids.insert(row, uuid)
        self.ids.insert(row, provider_id)
        self.traits.insert(row, frozenset())
        self.aggregates.insert(row, frozenset())
        if row < count:
            for columns in self._every():
                columns[row + 1 : count + 1] = columns[row:count]
            self._clear(row)
            self._view_used[row] = 0
        self._number_from(row)
        return row

    def _number_from(self, row: int) -> None:
        """Update ``row_of`` from ``row`` on. It must be fast (no Python loop): the caller holds the mirror's lock."""
        self.row_of.update(zip(self.uuids[row:], range(row, len(self.uuids)), strict=True))

    def _changed(self) -> None:
        self.version += 1
        self._static = self._table = None

    def _figures(self) -> Iterable[NDArray[Any]]:
        """Return the inventory and usage arrays in the order of ``_FIGURES``."""
        return *self._inventory.values(), self._used

    def _every(self) -> Iterable[NDArray[Any]]:
        return *self._figures(), self._has, self._view_used

    def _clear(self, row: int) -> None:
        """Remove all inventories of a row."""
        for name, columns in zip(_FIGURES, self._figures(), strict=True):
            columns[row] = _DEFAULTS.get(name, 0)
        self._has[row] = False

    def _resize(self, rows: int) -> None:
        """Reallocate the arrays for ``rows`` rows and the present classes. Arrays that tables share are not changed.

        All arrays are in Fortran order, because the scheduler reads one resource class at a time.
        """
        shape = rows, len(self.classes)
        self._inventory = {name: _copied_into(_empty(name, shape), old) for name, old in self._inventory.items()}
        self._has = _copied_into(np.zeros(shape, dtype=np.bool_, order="F"), self._has)
        self._used = _copied_into(_empty("used", shape), self._used)
        self._view_used = _copied_into(_empty("used", shape), self._view_used)
        self._view_elements()

    def _view_elements(self) -> None:
        """Renew the memoryviews of the arrays: access to a single element takes half the time of array access."""
        self._used_figures, self._view_figures = self._used.data, self._view_used.data
        self._inventory_figures = tuple(column.data for column in self._inventory.values())

    def _interned(self, names: Iterable[str]) -> frozenset[str]:
        if isinstance(names, tuple):  # during a load, many providers share one tuple
            known = self._sets.get(names)
            if known is None:
                known = self._sets[names] = self._interned(frozenset(names))
            return known
        wanted = frozenset(names)
        return self._sets.setdefault(wanted, wanted)


def _empty(name: str, shape: tuple[int, int]) -> NDArray[Any]:
    kind: Any = np.float64 if name == "allocation_ratio" else np.int64
    return np.full(shape, _DEFAULTS.get(name, 0), dtype=kind, order="F")


def _copied_into(new: NDArray[Any], old: NDArray[Any]) -> NDArray[Any]:
    """Copy all values of ``old`` to ``new``, except for unused rows at the end of ``old`` that ``new`` lacks."""
    rows, columns = min(len(new), len(old)), old.shape[1]
    new[:rows, :columns] = old[:rows]
    return new


def _keep_unless(values: dict[str, str], key: str, value: str | None, usual: str | None) -> None:
    """Store a value under ``key``. If the value is None or ``usual``, remove the key instead."""
    if value is None or value == usual:
        values.pop(key, None)
    else:
        values[key] = value


def _bits(sets: list[frozenset[str]]) -> tuple[dict[str, int], NDArray[np.bool_]]:
    """Convert P sets of names into a bit matrix with one row per name. Shapes: → (N, P)."""
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
