# SPDX-License-Identifier: Apache-2.0
"""The host table: one row per host, one array per attribute.

Axes: H hosts (hypervisors), R resource classes, T traits, A aggregates.

A table is a snapshot. The columns that change with every claim (``used``, ``num_instances``, ``num_io_ops``,
``devices``) are copies that the caller may change. All other columns are shared between snapshots; a change replaces
the array and never writes to it. The table of :class:`~kilonova.scheduler.live_hosts.LiveHosts` is the exception: its
columns are read in place.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kilonova.model.host import Capabilities
from kilonova.model.host_devices import DeviceShare, HostDevices
from kilonova.placement.provider_table import ProviderTable
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_index import AggregateIndex, rows_by_name
from kilonova.scheduler.device_states import DeviceStates
from kilonova.scheduler.guests import GuestCounts, GuestKind, MoreGuests
from kilonova.scheduler.memo import Memo

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
Rows = IntArray | slice
"""Rows of a table: an array of indices, or ``slice(None)`` for all rows, which avoids copying columns."""
T = TypeVar("T")
Scalar = TypeVar("Scalar", bound=np.generic)

ALL_ROWS = slice(None)
_FEW = 8


def pick(column: NDArray[Scalar], rows: Rows) -> NDArray[Scalar]:
    """Return the given rows of a column, without a copy if ``rows`` is a slice. Shapes: (H,) → (N,)."""
    return column[rows] if isinstance(rows, slice) else column.take(rows)


def difference(one: NDArray[Any], other: IntArray, rows: Rows) -> NDArray[Any]:
    """Return ``one - other`` for the given rows. Shapes: (H,), (H,) → (N,)."""
    if not isinstance(rows, slice) and len(rows) * _FEW < len(one):
        few: NDArray[Any] = one.take(rows) - other.take(rows)
        return few
    every: NDArray[Any] = one - other
    return pick(every, rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTable:
    """A read-only snapshot of all hosts.

    ``hosts``, ``nodes``, ``uuids``: (H,) service host, hypervisor hostname, resource provider uuid.
    ``total``, ``reserved``, ``allocation_ratio``, ``min_unit``, ``max_unit``, ``step_size``: (H, R) inventories.
    ``capacity``, ``used``: (H, R) int64; a class that a host lacks has capacity 0 and total 0.
    ``trait_rows``: trait name → row of ``trait_bits`` (T, H) bool; a trait that no host has is absent.
    ``disabled``, ``forced_down``: (H,) bool. ``last_seen``: (H,) epoch seconds of the newest heartbeat.
    ``num_instances``, ``num_io_ops``, ``failed_builds``: (H,) int64.
    ``profiles``: the distinct capabilities; ``profile``: (H,) index of the host's capabilities in ``profiles``.
    ``devices``: (H,) number in ``device_states`` of the host's NUMA cells and PCI pools with their usage.
    ``instance_rows``: instance uuid → row of its host.
    ``guests``: counts of the instances on the hosts by flavor and by image property, computed at first use.
    ``metrics``: metric name → (H,) the reported values, NaN if a host does not report the metric.
    ``cell_uuids``: (H,) the Nova cell of each host; empty if there is only one cell.
    ``taken_at``: epoch seconds of the snapshot; rules use it as the current time.
    ``memo``: cache of results from the shared columns (aggregates, traits, profiles, inventories, names, host_ips).
    ``host_rows``: service host name → its rows; computed at first use if None.
    ``providers``: table of all resource providers, or None if there are only the hosts' root providers.
    ``provider_rows``: (H,) row of each host's root provider in ``providers``.
    (H, R) arrays are in Fortran order, as rules read one class at a time; ``used.copy(order="K")`` keeps that order.
    """

    hosts: tuple[str, ...]
    nodes: tuple[str, ...]
    uuids: tuple[str, ...]
    resource_classes: tuple[str, ...]
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
    disabled: BoolArray
    forced_down: BoolArray
    last_seen: FloatArray
    num_instances: IntArray
    num_io_ops: IntArray
    failed_builds: IntArray
    profiles: tuple[Capabilities, ...]
    profile: NDArray[np.int32]
    device_states: DeviceStates
    devices: NDArray[np.int32]
    aggregates: AggregateIndex
    instance_rows: Mapping[str, int]
    host_ips: tuple[str, ...]
    disabled_reasons: Mapping[int, str]
    guests: GuestCounts
    taken_at: float
    metrics: Mapping[str, FloatArray] = field(default_factory=dict)
    cell_uuids: tuple[str, ...] = ()
    memo: Memo = field(default_factory=Memo, compare=False)
    host_rows: Mapping[str, Sequence[int]] | None = field(default=None, compare=False)
    providers: ProviderTable | None = field(default=None, compare=False)
    provider_rows: IntArray | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self.hosts)

    @property
    def all_hosts(self) -> BoolArray:
        """The mask of all hosts. It is always the same object: rules that do not apply return it."""
        mask: BoolArray = self.memo.get("all_hosts", lambda: np.ones(len(self), dtype=np.bool_))
        return mask

    def column(self, resource_class: str) -> int | None:
        """Return the column index of a resource class, or None if no host has it."""
        try:
            return self.resource_classes.index(resource_class)
        except ValueError:
            return None

    def free(self, resource_class: str, rows: Rows = ALL_ROWS) -> IntArray:
        """Return ``total - reserved - used`` of a resource class; the result can be negative.

        The allocation ratio is ignored. Shapes: → (H,) or (N,).
        """
        column = self.column(resource_class)
        if column is None:
            return np.zeros(len(self), dtype=np.int64)[rows]
        usable: IntArray = self.memo.get(("usable", column), lambda: self.total[:, column] - self.reserved[:, column])
        return difference(usable, self.used[:, column], rows)

    def metric(self, name: str) -> FloatArray:
        """Return the value of a metric on each host, NaN if a host does not report it. Shapes: → (H,)."""
        column = self.metrics.get(name)
        return self.memo.get("no metric", lambda: np.full(len(self), np.nan)) if column is None else column

    def heard_within(self, seconds: float) -> BoolArray:
        """Return the hosts that have sent a heartbeat within this time before the snapshot. Shapes: → (H,)."""
        heard: BoolArray = np.abs(self.taken_at - self.last_seen) <= seconds
        return heard

    def has_trait(self, trait: str) -> BoolArray:
        """Return the mask of the hosts that report ``trait``. Shapes: → (H,)."""
        row = self.trait_rows.get(trait)
        if row is None:
            return np.zeros(len(self), dtype=np.bool_)
        bits: BoolArray = self.trait_bits[row]
        return bits

    def devices_of(self, row: int) -> HostDevices:
        """Return the NUMA cells and PCI pools of one host."""
        return self.device_states[int(self.devices[row])]

    def take(self, rows: IntArray) -> "HostTable":
        """Return a table of ``rows`` only, in the order of ``rows``, with an empty memo.

        Call this method before the original table changes.
        """
        listed = rows.tolist()
        part = slice(listed[0], listed[0] + 1) if len(listed) == 1 else rows
        return replace(self, **{name: take(self, part, listed) for name, take in _PARTS.items()})

    def part(self, rows: IntArray) -> "HostTable":
        """Return :meth:`take` of ``rows`` with columns that are taken when they are first read.

        Use the result only before the original table changes.
        """
        return _Part(self, rows)

    def of_each_host(self, key: Hashable, compute: Callable[["HostTable"], T]) -> T:
        """Return the cached result of ``compute``: an array with one entry per host, or one value for all hosts.

        ``key`` must contain every input of ``compute`` besides the shared columns. The tables that :meth:`part` returns
        use the result for the whole table.
        """
        return self.memo.get(key, lambda: compute(self))

    def foreseen(self, rows: IntArray, servers: IntArray, amounts: Mapping[str, int], guest: GuestKind) -> "HostTable":
        """Return a table of ``rows`` that includes the usage of further servers.

        Call this method before the original table changes. ``rows`` may contain a host several times.
        ``servers``: number of equal servers added to each row. ``amounts``: the resources that one server takes from
        the root provider.
        Shapes: ``rows``, ``servers`` (N,).
        """
        part = self.take(rows).with_own_use()
        for name, amount in amounts.items():
            column = part.column(name)
            if column is not None:
                part.used[:, column] += amount * servers
        part.num_instances[:] += servers
        part.num_io_ops[:] += servers
        for place, count in enumerate(servers.tolist()):
            for _ in range(count):
                part.guests.count(place, guest)
        return part

    def with_own_use(self) -> "HostTable":
        """Return the table with copies of the columns that :meth:`count_server` changes."""
        providers = self.providers
        return replace(
            self,
            used=self.used.copy(order="K"),
            num_instances=self.num_instances.copy(),
            num_io_ops=self.num_io_ops.copy(),
            guests=MoreGuests(self.guests),
            devices=self.devices.copy(),
            providers=None if providers is None else replace(providers, used=providers.used.copy(order="K")),
        )

    def count_server(
        self,
        row: int,
        allocations: Mapping[str, Mapping[str, int]],
        guest: GuestKind,
        share: DeviceShare | None = None,
    ) -> None:
        """Add the usage of a server that is being built to the columns that :meth:`with_own_use` has copied.

        ``allocations``: provider uuid → resource class → amount. ``share``: the server's part of NUMA cells and PCI
        pools; if given, the caller must hold the lock of ``device_states``.
        """
        for name, amount in allocations.get(self.uuids[row], {}).items():
            column = self.column(name)
            if column is not None:
                self.used[row, column] += amount
        if self.providers is not None:
            for uuid, amounts in allocations.items():
                self.providers.count(uuid, amounts)
        self.num_instances[row] += 1
        self.num_io_ops[row] += 1
        self.guests.count(row, guest)
        if share:
            self.count_devices(row, share)

    def count_devices(self, row: int, share: DeviceShare) -> None:
        """Add a server's usage of NUMA cells and PCI pools. The caller must hold the lock of ``device_states``."""
        self.devices[row] = self.device_states.number(self.devices_of(row).taking(share))

    def rows_of_host(self) -> Mapping[str, Sequence[int]]:
        """Return service host name (case-sensitive) → rows of the host's nodes."""
        if self.host_rows is not None:
            return self.host_rows
        index: Mapping[str, Sequence[int]] = self.memo.get("rows of host", lambda: rows_by_name(self.hosts))
        return index

    def rows_named(self, host: str | None, node: str | None) -> BoolArray:
        """Return the mask of the rows with this service host (case-insensitive) and node (case-sensitive).

        None as ``host`` matches all hosts; None as ``node`` matches all nodes of the host. Shapes: → (H,).
        """
        if host is None:
            rows: Sequence[int] = range(len(self))
        else:
            lower: Mapping[str, Sequence[int]] = self.memo.get(
                "rows of host, any case", lambda: rows_by_name([name.lower() for name in self.hosts])
            )
            rows = lower.get(host.lower(), ())
        mask = np.zeros(len(self), dtype=np.bool_)
        mask[[row for row in rows if node is None or self.nodes[row] == node]] = True
        return mask

    def other_than(self, places: Collection[tuple[str, str]]) -> BoolArray:
        """Return the mask of all rows except the rows of the given (service host, node) pairs. Shapes: → (H,)."""
        if not places:
            return self.all_hosts
        others = np.ones(len(self), dtype=np.bool_)
        rows = self.rows_of_host()
        others[[row for host, node in places for row in rows.get(host, ()) if self.nodes[row] == node]] = False
        return others


_COLUMNS = (
    *("total", "reserved", "allocation_ratio", "min_unit", "max_unit", "step_size", "capacity", "used"),
    *("disabled", "forced_down", "last_seen", "num_instances", "num_io_ops", "failed_builds", "profile"),
    "devices",
)


def _column(name: str) -> "_Take":
    return lambda whole, rows, _: getattr(whole, name)[rows]


def _names(name: str) -> "_Take":
    def names(whole: HostTable, _: Rows, listed: Sequence[int]) -> tuple[str, ...]:
        every = getattr(whole, name)
        return tuple([every[row] for row in listed]) if every else ()

    return names


def _places(listed: Sequence[int]) -> dict[int, int]:
    return {row: place for place, row in enumerate(listed)}


def _reasons(whole: HostTable, _: Rows, listed: Sequence[int]) -> dict[int, str]:
    reasons = whole.disabled_reasons
    return {place: reasons[row] for place, row in enumerate(listed) if row in reasons}


_Take = Callable[[HostTable, Rows, Sequence[int]], Any]
"""Function that takes some rows of one attribute. The rows are given twice: as an index of columns, and as a list."""
_PARTS: Mapping[str, _Take] = {
    **{name: _column(name) for name in _COLUMNS},
    **{name: _names(name) for name in ("hosts", "nodes", "uuids", "host_ips", "cell_uuids")},
    "trait_bits": lambda whole, rows, _: whole.trait_bits[:, rows],
    "aggregates": lambda whole, rows, _: whole.aggregates.take(rows),
    "instance_rows": lambda whole, _, listed: _MovedRows(whole.instance_rows, _places(listed)),
    "guests": lambda whole, _, listed: whole.guests.take(np.array(listed, dtype=np.int64)),
    "metrics": lambda whole, rows, _: {name: column[rows] for name, column in whole.metrics.items()},
    "disabled_reasons": _reasons,
    "memo": lambda *_: Memo(),
    "host_rows": lambda *_: None,
    "provider_rows": lambda whole, rows, _: None if whole.provider_rows is None else whole.provider_rows[rows],
}
"""The attributes of :meth:`HostTable.take` that differ from those of the whole table."""


class _Part(HostTable):
    """Some rows of a table. An attribute is set when it is first read: until then it is an unset slot."""

    __slots__ = ("_listed", "_rows", "_whole")

    def __init__(self, whole: HostTable, rows: IntArray) -> None:
        put = object.__setattr__
        put(self, "_whole", whole)
        put(self, "_rows", rows)
        put(self, "_listed", rows.tolist())

    def __len__(self) -> int:
        return len(self._listed)

    def __getattr__(self, name: str) -> Any:
        take = _PARTS.get(name)
        found = getattr(self._whole, name) if take is None else take(self._whole, self._rows, self._listed)
        object.__setattr__(self, name, found)
        return found

    def of_each_host(self, key: Hashable, compute: Callable[[HostTable], T]) -> T:
        found: Any = self._whole.of_each_host(key, compute)
        some: T = found[self._rows] if isinstance(found, np.ndarray) else found
        return some


class _MovedRows(Mapping[str, int]):
    """Instance uuid → row of a table that :meth:`HostTable.take` made. Lookups translate the original row number."""

    def __init__(self, rows: Mapping[str, int], new_place: Mapping[int, int]) -> None:
        self._rows = rows
        self._new_place = new_place

    def __getitem__(self, uuid: str) -> int:
        return self._new_place[self._rows[uuid]]

    def __iter__(self) -> Iterator[str]:
        return (uuid for uuid, row in self._rows.items() if row in self._new_place)

    def __len__(self) -> int:
        return sum(1 for _ in self)
