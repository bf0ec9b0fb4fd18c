# SPDX-License-Identifier: Apache-2.0
"""Counts of the instances on each host, by flavor and by image property. Each column is built at its first use."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from kilonova.model.image_properties import canonical_value, present_name
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass

Counts = NDArray[np.int64]
Key = TypeVar("Key")
_COLUMNS_KEPT = 256


class GuestKind(NamedTuple):
    """The flavor and image properties of an existing instance. Instances of equal kind are counted together."""

    flavor_id: str
    image_properties: tuple[tuple[str, str], ...] = ()


def guest_kind(flavor_id: str, image_properties: Mapping[str, object]) -> GuestKind:
    """Return the kind of an instance, with legacy image property names and values converted to canonical ones."""
    if not image_properties:
        return GuestKind(flavor_id)
    texts = {name: str(value) for name, value in image_properties.items()}
    pairs = {present_name(name): text for name, text in texts.items()}
    pairs |= {name: text for name, text in texts.items() if present_name(name) == name}  # canonical names win
    return GuestKind(flavor_id, tuple(sorted((name, canonical_value(name, text)) for name, text in pairs.items())))


def guest_of(spec: RequestSpec) -> GuestKind:
    """Return the kind of the servers that a request creates."""
    return guest_kind(spec.flavor.flavor_id, spec.image.properties if spec.image else {})


class GuestCounts(Protocol):
    """Counts of the instances on the hosts of a table. Shapes: → (H,), a copy that the caller may change."""

    def count(self, row: int, kind: GuestKind) -> None:
        """Add an instance to the counts of a row.

        The counts of the database mirror ignore this call: they already include the servers that a decision places.
        """

    def take(self, rows: NDArray[np.int64]) -> "GuestCounts":
        """Return the counts of the given rows only, in that order."""

    def of_other_flavors(self, flavor_id: str) -> Counts:
        """Count the instances on each host whose flavor is not ``flavor_id``."""

    def with_image_property(self, name: str, value: str) -> Counts:
        """Count the instances on each host whose image has the property ``name`` with this ``value``."""


class GuestTally:
    """Counts of instances by place, updated for each added and removed instance.

    A place is any hashable key of a host.
    """

    def __init__(self) -> None:
        self._kinds: dict[Hashable, dict[GuestKind, int]] = {}
        self._columns: GuestColumns | None = None

    def add(self, place: Hashable, kind: GuestKind, count: int) -> None:
        """Add ``count`` instances of a kind; a negative ``count`` removes them."""
        kinds = self._kinds.setdefault(place, {})
        kinds[kind] = kinds.get(kind, 0) + count
        if not kinds[kind]:
            del kinds[kind]
        if not kinds:
            del self._kinds[place]
        if self._columns is not None:
            self._columns.add(place, kind, count)

    def columns(self, row_of: Mapping[Any, int]) -> "GuestColumns":
        """Return the counts by row of a table. ``row_of``: place → row.

        The result is cached until the method is called with another ``row_of``, and :meth:`add` keeps it up to date.
        """
        if self._columns is None or self._columns.row_of is not row_of:
            self._columns = GuestColumns(row_of, self._kinds)
        return self._columns


class GuestColumns:
    """Counts of instances by row of one host table. The column of a flavor or a property is built at its first use."""

    def __init__(self, row_of: Mapping[Any, int], kinds: Mapping[Hashable, Mapping[GuestKind, int]]) -> None:
        self.row_of = row_of
        self._kinds = kinds
        self._total = np.zeros(len(row_of), dtype=np.int64)
        self._by_flavor: dict[str, Counts] = {}
        self._by_property: dict[tuple[str, str], Counts] = {}
        for place, counts in kinds.items():
            if (row := row_of.get(place)) is not None:
                self._total[row] = sum(counts.values())

    def add(self, place: Hashable, kind: GuestKind, count: int) -> None:
        """Add ``count`` instances of a kind to the columns that are already built. ``count`` may be negative."""
        row = self.row_of.get(place)
        if row is None:
            return
        self._total[row] += count
        if (column := self._by_flavor.get(kind.flavor_id)) is not None:
            column[row] += count
        for pair in kind.image_properties:
            if (column := self._by_property.get(pair)) is not None:
                column[row] += count

    def of_other_flavors(self, flavor_id: str) -> Counts:
        column = self._by_flavor.get(flavor_id)
        if column is None:
            column = self._counted(lambda kind: kind.flavor_id == flavor_id)
            _keep(self._by_flavor, flavor_id, column)
        others: Counts = self._total - column
        return others

    def with_image_property(self, name: str, value: str) -> Counts:
        pair = (name, value)
        column = self._by_property.get(pair)
        if column is None:
            column = self._counted(lambda kind: pair in kind.image_properties)
            _keep(self._by_property, pair, column)
        return column.copy()

    def _counted(self, fits: Callable[[GuestKind], bool]) -> Counts:
        column = np.zeros(len(self.row_of), dtype=np.int64)
        for place, counts in self._kinds.items():
            if (row := self.row_of.get(place)) is not None:
                column[row] = sum(count for kind, count in counts.items() if fits(kind))
        return column


@dataclass(frozen=True, slots=True)
class TableGuests:
    """Counts for a host table that has a tally of its own. The places of the tally are the rows of the table."""

    tally: GuestTally
    row_of: Mapping[int, int]

    @classmethod
    def of(cls, guests: Sequence[Iterable[GuestKind]]) -> "TableGuests":
        """Build the counts from the instances of each row."""
        tally = GuestTally()
        for row, kinds in enumerate(guests):
            for kind in kinds:
                tally.add(row, kind, 1)
        return cls(tally, {row: row for row in range(len(guests))})

    def count(self, row: int, kind: GuestKind) -> None:
        self.tally.add(row, kind, 1)

    def take(self, rows: NDArray[np.int64]) -> GuestCounts:
        return SomeGuests(self, rows)

    def of_other_flavors(self, flavor_id: str) -> Counts:
        return self.tally.columns(self.row_of).of_other_flavors(flavor_id)

    def with_image_property(self, name: str, value: str) -> Counts:
        return self.tally.columns(self.row_of).with_image_property(name, value)


@dataclass(frozen=True, slots=True)
class SomeGuests:
    """The counts of instances on a subset of the rows of a host table."""

    guests: GuestCounts
    rows: NDArray[np.int64]

    def count(self, row: int, kind: GuestKind) -> None:
        self.guests.count(int(self.rows[row]), kind)

    def take(self, rows: NDArray[np.int64]) -> GuestCounts:
        return SomeGuests(self.guests, self.rows[rows])

    def of_other_flavors(self, flavor_id: str) -> Counts:
        return self.guests.of_other_flavors(flavor_id)[self.rows]

    def with_image_property(self, name: str, value: str) -> Counts:
        return self.guests.with_image_property(name, value)[self.rows]


class MoreGuests:
    """The counts of a host table plus the tentative servers of a decision. The table's own counts do not change."""

    def __init__(self, guests: GuestCounts) -> None:
        self._guests = guests
        self._more: list[tuple[int, GuestKind]] = []

    def count(self, row: int, kind: GuestKind) -> None:
        self._more.append((row, kind))

    def take(self, rows: NDArray[np.int64]) -> GuestCounts:
        return SomeGuests(self, rows)

    def of_other_flavors(self, flavor_id: str) -> Counts:
        return self._with(self._guests.of_other_flavors(flavor_id), lambda kind: kind.flavor_id != flavor_id)

    def with_image_property(self, name: str, value: str) -> Counts:
        found = self._guests.with_image_property(name, value)
        return self._with(found, lambda kind: (name, value) in kind.image_properties)

    def _with(self, counts: Counts, fits: Callable[[GuestKind], bool]) -> Counts:
        for row, kind in self._more:
            counts[row] += fits(kind)
        return counts


class ChangedGuests:
    """The counts of a host table with instances added and removed. The table's own counts do not change."""

    def __init__(self, guests: GuestCounts) -> None:
        self._guests = guests
        self._changes: dict[tuple[int, GuestKind], int] = {}

    def count(self, row: int, kind: GuestKind) -> None:
        self.change(row, kind, 1)

    def change(self, row: int, kind: GuestKind, count: int) -> None:
        """Add ``count`` instances to the counts of a row; a negative ``count`` removes them."""
        total = self._changes.get((row, kind), 0) + count
        if total:
            self._changes[row, kind] = total
        else:
            self._changes.pop((row, kind), None)

    def take(self, rows: NDArray[np.int64]) -> GuestCounts:
        return SomeGuests(self, rows)

    def of_other_flavors(self, flavor_id: str) -> Counts:
        return self._with(self._guests.of_other_flavors(flavor_id), lambda kind: kind.flavor_id != flavor_id)

    def with_image_property(self, name: str, value: str) -> Counts:
        found = self._guests.with_image_property(name, value)
        return self._with(found, lambda kind: (name, value) in kind.image_properties)

    def _with(self, counts: Counts, fits: Callable[[GuestKind], bool]) -> Counts:
        for (row, kind), count in self._changes.items():
            if fits(kind):
                counts[row] += count
        return counts


def _keep(columns: dict[Key, Counts], key: Key, column: Counts) -> None:
    if len(columns) >= _COLUMNS_KEPT:
        del columns[next(iter(columns))]
    columns[key] = column
