# SPDX-License-Identifier: Apache-2.0
"""Growing columns with data of services and nodes, and numbers of instances. :class:`NodeIds` defines the indices."""

from array import array
from collections.abc import Iterable, Iterator
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from kilonova.db.change_log.changes import (
    NOWHERE,
    LoggedCapabilities,
    LoggedNode,
    LoggedProcess,
    LoggedService,
    capabilities_key,
)
from kilonova.db.compute_nodes import capabilities_from_logged
from kilonova.mirror.node_ids import NodeIds
from kilonova.model.address import canonical_address
from kilonova.model.host import Capabilities


class HostColumns:
    """Columns of services and nodes. Shapes: (nodes,).

    Columns with values of services are indexed by the number of the host, all other columns by the id of the node.
    """

    def __init__(self, node_ids: NodeIds) -> None:
        self.node_ids = node_ids
        #: Distinct capabilities, indexed by profile number.
        self.profiles: list[Capabilities] = []
        self._profile_numbers: dict[bytes, int] = {}
        self.clear()

    def clear(self) -> None:
        """Remove the values that came from the database, and keep the numbers of hosts and nodes."""
        #: Node uuid → node id.
        self.ids_of_nodes: dict[str, int] = {}
        self._host_ips: list[str] = []
        self._profile = array("i")
        self._failed_builds = array("i")
        self._has_service = array("b")
        self._disabled = array("b")
        self._forced_down = array("b")
        #: For hosts whose process is unknown: the last heartbeat in change logs of old releases, or the service's
        #: creation time.
        self._last_seen = array("d")
        #: Number of the process that runs the host's agent, starting with 1; 0 if no process runs the agent.
        self._process = array("i")
        #: Process uuid → number of the process, which is its index in ``_up`` and in ``_silent_since``. The latter has
        #: the last heartbeat of each process that is down.
        self._processes: dict[str, int] = {}
        self._up = array("b", [0])
        self._silent_since = array("d", [0.0])
        self._reasons: dict[int, str] = {}  # host number → reason, for disabled services
        self._instances = array("i")
        self._io_ops = array("i")

    # --- applying changes ---------------------------------------------------------------------------------------------

    def set_service(self, host: str, value: LoggedService | None) -> bool:
        """Store a service from its change log value; return whether it was created or deleted."""
        number = self.node_ids.host(host)
        self._make_room()
        had, has = bool(self._has_service[number]), value is not None
        self._has_service[number] = has
        self._reasons.pop(number, None)
        if value is not None:
            self._disabled[number], self._forced_down[number] = value.disabled, value.forced_down
            seen = value.last_seen
            # The change has no heartbeat time: keep the known time, unless the service has been created again since.
            if seen is None:
                seen = max(self._last_seen[number] if had else 0.0, value.created or 0.0)
            self._last_seen[number] = seen
            if value.disabled:
                self._reasons[number] = value.reason or ""
        return had != has

    def set_process(self, uuid: str, value: LoggedProcess | None) -> None:
        """Store whether a process is up. ``value``: None removes a process that no longer runs agents."""
        if value is None:
            self._processes.pop(uuid, None)
            return
        number = self._process_number(uuid)
        self._up[number] = value.silent_since is None
        self._silent_since[number] = value.silent_since or 0.0

    def set_agents(self, process: str, hosts: Iterable[str]) -> None:
        """Store the process that now runs the agents of ``hosts``. ``process``: NOWHERE if no process runs them."""
        process_number = 0 if process == NOWHERE else self._process_number(process)
        for host in hosts:
            number = self.node_ids.host(host)
            self._make_room()
            self._process[number] = process_number

    def hear(self, hosts: Iterable[str], at: float) -> None:
        """Store the time of a heartbeat for the services of ``hosts``. Unknown hosts are ignored."""
        for host in hosts:
            number = self.node_ids.find_host(host)
            if number is not None and self.has_service(number):
                self._last_seen[number] = at

    def set_node(self, uuid: str, value: LoggedNode | None) -> None:
        """Store a node from its change log value."""
        if value is None:
            self.ids_of_nodes.pop(uuid, None)
            return
        profile = self._profile_number(value.capabilities)
        node_id = self.ids_of_nodes[uuid] = self.node_ids.node(value.host, value.node)
        self._make_room()
        self._host_ips[node_id], self._profile[node_id] = canonical_address(value.host_ip), profile
        self._failed_builds[node_id] = value.failed_builds

    def count(self, node_id: int, instances: int, io_ops: int) -> None:
        """Add to a node's number of instances and number of io-heavy operations. Negative arguments subtract."""
        if node_id >= len(self._instances):
            self._make_room()
        self._instances[node_id] += instances
        if io_ops:
            self._io_ops[node_id] += io_ops

    # --- columns ------------------------------------------------------------------------------------------------------

    def services(self) -> Iterator[tuple[str, bool]]:
        """Yield (host, True if enabled) of every compute service."""
        hosts = np.flatnonzero(np.asarray(self._has_service)).astype(np.int32)
        disabled = self.disabled(hosts).tolist()
        for host, is_disabled in zip(self.node_ids.hosts_of(hosts), disabled, strict=True):
            yield host, not is_disabled

    def nodes(self) -> Iterator[tuple[str, str]]:
        """Yield (host, hypervisor hostname) of every node."""
        node_ids = np.fromiter(self.ids_of_nodes.values(), dtype=np.int32, count=len(self.ids_of_nodes))
        yield from zip(self.node_ids.hosts_of(node_ids), self.node_ids.nodes_of(node_ids), strict=True)

    def has_service(self, host: int) -> bool:
        return host < len(self._has_service) and bool(self._has_service[host])

    def hosts_of(self, node_ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the host number of each node. Shapes: (N,) → (N,)."""
        extra = self.node_ids.extra_nodes()
        if not extra:
            return node_ids
        host_of = np.arange(len(self.node_ids), dtype=np.int32)
        for node_id, host in extra:
            host_of[node_id] = host
        return host_of[node_ids]

    def have_service(self, hosts: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return the mask of the hosts that have a compute service. Shapes: (N,) → (N,)."""
        return _flags(self._has_service, hosts)

    def disabled(self, hosts: NDArray[np.int32]) -> NDArray[np.bool_]:
        return _flags(self._disabled, hosts)

    def forced_down(self, hosts: NDArray[np.int32]) -> NDArray[np.bool_]:
        return _flags(self._forced_down, hosts)

    def up(self, hosts: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return the mask of the hosts whose agent runs in a process that is up. Shapes: (N,) → (N,)."""
        return _flags(self._up, np.asarray(self._process)[hosts])

    def silent_since(self, hosts: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the last heartbeat of each host; only valid for hosts that are down. Units: epoch seconds.

        Shapes: (N,) → (N,).
        """
        process = np.asarray(self._process)[hosts]
        of_process: NDArray[np.float64] = np.asarray(self._silent_since)[process]
        return np.where(process > 0, of_process, np.asarray(self._last_seen)[hosts])

    def reason(self, host: int) -> str:
        """Return the ``disabled_reason`` of a host's service."""
        return self._reasons[host]

    def host_ips(self, node_ids: NDArray[np.int32]) -> tuple[str, ...]:
        return tuple(map(self._host_ips.__getitem__, node_ids.data))

    def profile(self, node_ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the index of each node's capabilities in ``profiles``."""
        return np.asarray(self._profile)[node_ids]

    def failed_builds(self, node_ids: NDArray[np.int32]) -> NDArray[np.int64]:
        return np.asarray(self._failed_builds)[node_ids].astype(np.int64)

    def num_instances(self, node_ids: NDArray[np.int32]) -> NDArray[np.int64]:
        return np.asarray(self._instances)[node_ids].astype(np.int64)

    def num_io_ops(self, node_ids: NDArray[np.int32]) -> NDArray[np.int64]:
        return np.asarray(self._io_ops)[node_ids].astype(np.int64)

    def _make_room(self) -> None:
        missing = len(self.node_ids) - len(self._has_service)
        if missing > 0:
            self._host_ips.extend(repeat("", missing))
            flags = self._has_service, self._disabled, self._forced_down
            counts = self._failed_builds, self._instances, self._io_ops
            for column in (*flags, *counts, self._profile, self._last_seen, self._process):
                column.frombytes(bytes(missing * column.itemsize))

    def _process_number(self, uuid: str) -> int:
        number = self._processes.get(uuid)
        if number is None:
            number = self._processes[uuid] = len(self._up)
            self._up.append(0)
            self._silent_since.append(0.0)
        return number

    def _profile_number(self, value: LoggedCapabilities) -> int:
        key = capabilities_key(value)
        number = self._profile_numbers.get(key)
        if number is None:
            number = self._profile_numbers[key] = len(self.profiles)
            self.profiles.append(capabilities_from_logged(value))
        return number


def _flags(column: "array[int]", rows: NDArray[np.int32]) -> NDArray[np.bool_]:
    return np.asarray(column)[rows].view(np.bool_)
