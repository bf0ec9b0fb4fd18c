# SPDX-License-Identifier: Apache-2.0
"""Layout of the host table: the row of each node, and the columns that change only if nodes or providers change.

A row is a node that has a resource provider and whose host has a compute service. Axes: H rows (hosts).
"""

from array import array
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from kilonova.mirror.device_columns import DeviceColumns
from kilonova.mirror.host_columns import HostColumns
from kilonova.model.host import Capabilities
from kilonova.placement.provider_table import ProviderTable
from kilonova.placement.provider_tree import SHARING_TRAIT
from kilonova.records import dataclass

T = TypeVar("T")

_INVENTORY = ("total", "reserved", "allocation_ratio", "min_unit", "max_unit", "step_size", "capacity")
_NO_ROW = -1
_NOTHING: NDArray[np.int64] = np.zeros((0, 0), dtype=np.int64)


class NodeRows(Mapping[int, int]):
    """Node id → row. The mapping is immutable, so that tables can share it."""

    def __init__(self, node_ids: NDArray[np.int32]) -> None:
        rows = np.full(int(node_ids.max(initial=-1)) + 1, _NO_ROW, dtype=np.int32)
        rows[node_ids] = np.arange(len(node_ids), dtype=np.int32)
        self._rows = array("i", rows.tobytes())
        self._count = len(node_ids)

    def __getitem__(self, node_id: int) -> int:
        row = self.get(node_id)
        if row is None:
            raise KeyError(node_id)
        return row

    @overload
    def get(self, key: int, /) -> int | None: ...
    @overload
    def get(self, key: int, default: int | T, /) -> int | T: ...
    def get(self, key: int, default: T | None = None, /) -> int | T | None:
        try:
            row = self._rows[key]
        except IndexError:
            return default
        return default if row == _NO_ROW else row

    def __iter__(self) -> Iterator[int]:
        return (node_id for node_id, row in enumerate(self._rows) if row != _NO_ROW)

    def __len__(self) -> int:
        return self._count


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The rows of the host table, in the order of the providers. Shapes: (H,).

    ``version``: version number of the provider columns. ``rows``: rows of the nodes' root providers in the provider
    table.
    The mirror updates ``used``, ``num_instances``, ``num_io_ops`` and ``devices``; all other fields stay unchanged.
    ``used``: (H, R), the usage of the hosts' root providers. With ``identity``, it is empty, because the rows of the
    providers are those of the hosts.
    """

    version: int
    rows: NDArray[np.int64]
    #: True if provider row n is the compute node of host row n for all n, and there are no other providers.
    identity: bool
    #: True if no host can use resources of a child or sharing provider.
    plain: bool
    row_of: NodeRows
    #: For each row, the number of its service host in the host columns.
    services: NDArray[np.int32]
    hosts: tuple[str, ...]
    nodes: tuple[str, ...]
    uuids: tuple[str, ...]
    host_ips: tuple[str, ...]
    profiles: tuple[Capabilities, ...]
    profile: NDArray[np.int32]
    failed_builds: NDArray[np.int64]
    num_instances: NDArray[np.int64]
    num_io_ops: NDArray[np.int64]
    devices: NDArray[np.int32]
    used: NDArray[np.int64]
    inventory: Mapping[str, Any]
    trait_rows: Mapping[str, int]
    trait_bits: NDArray[np.bool_]

    @classmethod
    def of(cls, table: ProviderTable, columns: HostColumns, devices: DeviceColumns) -> "Layout":
        """Build the layout of the present hosts."""
        rows, node_ids = _rows_and_node_ids(table, columns)
        identity = len(rows) == len(table) and bool((rows == np.arange(len(rows))).all())
        uuids = table.uuids if identity else tuple(map(table.uuids.__getitem__, rows.data))
        inventory = {name: getattr(table, name) for name in _INVENTORY}
        if not identity:
            inventory = {name: np.asfortranarray(column[rows]) for name, column in inventory.items()}
        profiles = columns.profile(node_ids)
        present = np.flatnonzero(np.bincount(profiles))
        return cls(
            version=table.version,
            rows=rows,
            identity=identity,
            plain=identity and bool((table.parent < 0).all()) and SHARING_TRAIT not in table.trait_rows,
            row_of=NodeRows(node_ids),
            services=columns.hosts_of(node_ids),
            hosts=columns.node_ids.hosts_of(node_ids),
            nodes=columns.node_ids.nodes_of(node_ids),
            uuids=uuids,
            host_ips=columns.host_ips(node_ids),
            profiles=tuple([columns.profiles[number] for number in present.tolist()]),
            profile=np.searchsorted(present, profiles).astype(np.int32),
            failed_builds=columns.failed_builds(node_ids),
            num_instances=columns.num_instances(node_ids),
            num_io_ops=columns.num_io_ops(node_ids),
            devices=devices.numbers(uuids),
            used=_NOTHING if identity else np.asfortranarray(table.used[rows]),
            inventory=inventory,
            trait_rows=table.trait_rows,
            trait_bits=table.trait_bits if identity else table.trait_bits[:, rows],
        )

    def row_of_provider(self, place: int) -> int | None:
        """Return the row of the host whose root provider is at ``place`` in the provider table, or None."""
        if self.identity:
            return place
        row = int(np.searchsorted(self.rows, place))
        return row if row < len(self.rows) and self.rows[row] == place else None


def _rows_and_node_ids(table: ProviderTable, columns: HostColumns) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the provider rows of the nodes in ascending order, and the node ids in the same order."""
    nodes = columns.ids_of_nodes
    rows = np.fromiter((table.row_of.get(uuid, _NO_ROW) for uuid in nodes), dtype=np.int64, count=len(nodes))
    node_ids = np.fromiter(nodes.values(), dtype=np.int32, count=len(nodes))
    found = np.flatnonzero((rows != _NO_ROW) & columns.have_service(columns.hosts_of(node_ids)))
    found = found[np.argsort(rows[found])]
    return rows[found], node_ids[found]


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """Status of the compute services of a layout's hosts. Shapes: (H,).

    ``silent_since``: last heartbeat of hosts that are down, in epoch seconds.
    """

    disabled: NDArray[np.bool_]
    forced_down: NDArray[np.bool_]
    up: NDArray[np.bool_]
    silent_since: NDArray[np.float64]
    all_up: bool
    reasons: Mapping[int, str]

    @classmethod
    def of(cls, layout: Layout, columns: HostColumns) -> "ServiceFacts":
        services = layout.services
        disabled, up = columns.disabled(services), columns.up(services)
        return cls(
            disabled=disabled,
            forced_down=columns.forced_down(services),
            up=up,
            silent_since=columns.silent_since(services),
            all_up=bool(up.all()),
            reasons={row: columns.reason(int(services[row])) for row in np.flatnonzero(disabled).tolist()},
        )

    def is_same_as(self, other: "ServiceFacts") -> bool:
        """Tell whether the status of all services is the same."""
        return self.reasons == other.reasons and all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("disabled", "forced_down", "up", "silent_since")
        )

    def last_seen(self, now: float) -> NDArray[np.float64]:
        """Return the last heartbeat of each host; for hosts that are up, this is ``now``. Shapes: → (H,)."""
        if self.all_up:
            return np.full(len(self.up), now)
        return np.where(self.up, now, self.silent_since)
