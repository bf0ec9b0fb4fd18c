# SPDX-License-Identifier: Apache-2.0
"""Numbers of service hosts and nodes, which serve as indices of the mirror's columns."""

import numpy as np
from numpy.typing import NDArray


class NodeIds:
    """Registry of host numbers and node ids. A node is a (service host, hypervisor hostname) pair; ids start at 0.

    An id is never reused. The id of a host's first node is the host's number, as most hosts have one node. Only further
    nodes are looked up as pairs.
    """

    def __init__(self) -> None:
        self._hosts: list[str] = []
        #: Hypervisor hostname by node id; None for a host without a known node.
        self._nodes: list[str | None] = []
        self._number: dict[str, int] = {}
        self._extra_nodes: dict[tuple[str, str], int] = {}

    def __len__(self) -> int:
        return len(self._hosts)

    def host(self, host: str) -> int:
        """Return the number of a host; a new host gets the next number."""
        number = self._number.get(host)
        if number is None:
            number = len(self._hosts)
            self._hosts.append(host)
            self._nodes.append(None)
            self._number[host] = number
        return number

    def find_host(self, host: str) -> int | None:
        """Return the number of a host, or None if the host is unknown."""
        return self._number.get(host)

    def node(self, host: str, node: str) -> int:
        """Return the id of a node; a new node gets a new id."""
        number = self._number.get(host)
        if number is None:
            number = self.host(host)
        known = self._nodes[number]
        if known == node:
            return number
        if known is None:
            self._nodes[number] = host if node == host else node  # equal names share one object, to save memory
            return number
        extra = self._extra_nodes.get((host, node))
        if extra is None:
            extra = len(self._hosts)
            self._hosts.append(self._hosts[number])
            self._nodes.append(node)
            self._extra_nodes[host, node] = extra
        return extra

    def hosts_of(self, node_ids: NDArray[np.int32]) -> tuple[str, ...]:
        """Return the service host of each node."""
        return tuple(map(self._hosts.__getitem__, node_ids.data))

    def nodes_of(self, node_ids: NDArray[np.int32]) -> tuple[str, ...]:
        """Return the hypervisor hostname of each node."""
        return tuple([self._nodes[node_id] or "" for node_id in node_ids.data])

    def extra_nodes(self) -> list[tuple[int, int]]:
        """Return (node id, host number) of every node that is not the first of its host."""
        return [(node_id, self._number[host]) for (host, _), node_id in self._extra_nodes.items()]
