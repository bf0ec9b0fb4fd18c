# SPDX-License-Identifier: Apache-2.0
"""Numbers for service hosts and for the hypervisors on them, so that facts can be columns instead of objects."""


class Places:
    """A place is a pair of service host and hypervisor hostname.

    Numbers are given once and never taken back: whoever keeps one means the same place for ever. Most hosts have one
    hypervisor, so the first place of a host has the number of the host; only further ones are looked up as pairs.
    Reads need no lock.
    """

    def __init__(self) -> None:
        self.hosts: list[str] = []
        #: None for a host of which no hypervisor was named so far.
        self.nodes: list[str | None] = []
        self._host: dict[str, int] = {}
        self._further: dict[tuple[str, str], int] = {}

    def __len__(self) -> int:
        return len(self.hosts)

    def host(self, host: str) -> int:
        """Return the number of a host, a new one the first time."""
        number = self._host.get(host)
        if number is None:
            number = len(self.hosts)
            self.hosts.append(host)
            self.nodes.append(None)
            self._host[host] = number
        return number

    def find_host(self, host: str) -> int | None:
        """Return the number of a host that was named before."""
        return self._host.get(host)

    def place(self, host: str, node: str) -> int:
        """Return the number of a place, a new one the first time."""
        number = self._host.get(host)
        if number is None:
            number = self.host(host)
        known = self.nodes[number]
        if known == node:
            return number
        if known is None:
            self.nodes[number] = host if node == host else node  # the same text twice is one object
            return number
        further = self._further.get((host, node))
        if further is None:
            further = len(self.hosts)
            self.hosts.append(self.hosts[number])
            self.nodes.append(node)
            self._further[host, node] = further
        return further

    def pair(self, place: int) -> tuple[str, str]:
        """Return the host and the hypervisor of a place."""
        node = self.nodes[place]
        assert node is not None
        return self.hosts[place], node

    def further(self) -> list[tuple[int, int]]:
        """Return the number of every place that has not its host's, and its host's."""
        return [(place, self._host[host]) for (host, _), place in self._further.items()]
