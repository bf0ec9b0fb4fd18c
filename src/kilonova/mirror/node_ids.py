# SPDX-License-Identifier: Apache-2.0
"""Numbers for service hosts and for the hypervisors on them, so that facts can be columns instead of objects."""

import numpy as np
from numpy.typing import NDArray


class NodeIds:
    """A node is a pair of service host and hypervisor hostname; its id is a number from 0 on.

    Numbers are given once and never taken back: whoever keeps one means the same node for ever. Most hosts have one
    hypervisor, so the first node of a host has the number of the host; only extra ones are looked up as pairs.
    """

    def __init__(self) -> None:
        self._hosts: list[str] = []
        #: None for a host of which no hypervisor was named so far.
        self._nodes: list[str | None] = []
        self._number: dict[str, int] = {}
        self._extra_nodes: dict[tuple[str, str], int] = {}

    def __len__(self) -> int:
        return len(self._hosts)

    def host(self, host: str) -> int:
        """Return the number of a host, a new one the first time."""
        number = self._number.get(host)
        if number is None:
            number = len(self._hosts)
            self._hosts.append(host)
            self._nodes.append(None)
            self._number[host] = number
        return number

    def find_host(self, host: str) -> int | None:
        """Return the number of a host that was named before."""
        return self._number.get(host)

    def node(self, host: str, node: str) -> int:
        """Return the id of a node, a new one the first time."""
        number = self._number.get(host)
        if number is None:
            number = self.host(host)
        known = self._nodes[number]
        if known == node:
            return number
        if known is None:
            self._nodes[number] = host if node == host else node  # the same text twice is one object
            return number
        extra = self._extra_nodes.get((host, node))
        if extra is None:
            extra = len(self._hosts)
            self._hosts.append(self._hosts[number])
            self._nodes.append(node)
            self._extra_nodes[host, node] = extra
        return extra

    def hosts_of(self, node_ids: NDArray[np.int32]) -> tuple[str, ...]:
        """Return the service hosts of nodes."""
        return tuple(map(self._hosts.__getitem__, node_ids.data))

    def nodes_of(self, node_ids: NDArray[np.int32]) -> tuple[str, ...]:
        """Return the hypervisor hostnames of nodes."""
        return tuple([self._nodes[node_id] or "" for node_id in node_ids.data])

    def extra_nodes(self) -> list[tuple[int, int]]:
        """Return the id of every node but the first of its host, and the number of that host."""
        return [(node_id, self._number[host]) for (host, _), node_id in self._extra_nodes.items()]
