# SPDX-License-Identifier: Apache-2.0
"""Numbers for service hosts and for the hypervisors on them, so that facts can be columns instead of objects."""

import numpy as np
from numpy.typing import NDArray


class Places:
    """A place is a pair of service host and hypervisor hostname.

    Numbers are given once and never taken back: whoever keeps one means the same place for ever. Most hosts have one
    hypervisor, so the first place of a host has the number of the host; only further ones are looked up as pairs.
    """

    def __init__(self) -> None:
        self._hosts: list[str] = []
        #: None for a host of which no hypervisor was named so far.
        self._nodes: list[str | None] = []
        self._number: dict[str, int] = {}
        self._further: dict[tuple[str, str], int] = {}

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

    def place(self, host: str, node: str) -> int:
        """Return the number of a place, a new one the first time."""
        number = self._number.get(host)
        if number is None:
            number = self.host(host)
        known = self._nodes[number]
        if known == node:
            return number
        if known is None:
            self._nodes[number] = host if node == host else node  # the same text twice is one object
            return number
        further = self._further.get((host, node))
        if further is None:
            further = len(self._hosts)
            self._hosts.append(self._hosts[number])
            self._nodes.append(node)
            self._further[host, node] = further
        return further

    def hosts_of(self, places: NDArray[np.int32]) -> tuple[str, ...]:
        """Return the service hosts of places."""
        return tuple(map(self._hosts.__getitem__, places.data))

    def nodes_of(self, places: NDArray[np.int32]) -> tuple[str, ...]:
        """Return the hypervisors of places."""
        return tuple([self._nodes[place] or "" for place in places.data])

    def further(self) -> list[tuple[int, int]]:
        """Return the number of every place that has not its host's, and its host's."""
        return [(place, self._number[host]) for (host, _), place in self._further.items()]
