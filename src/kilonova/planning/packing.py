# SPDX-License-Identifier: Apache-2.0
"""Packing: whole hosts become free, one after the other, those with the least GiB to move first.

A host is emptied completely or not at all, onto hosts that have servers already.
"""

from collections.abc import Callable, Collection, Mapping

from kilonova.model.server_migration import MoveKind
from kilonova.planning.cloud import Cloud
from kilonova.planning.destinations import Destinations
from kilonova.planning.plan import PlannedMove
from kilonova.planning.planned_server import PlannedServer
from kilonova.records import dataclass


@dataclass
class Packing:
    """The search on a cloud, which it changes.

    ``rows``: the hosts that may become free and take servers. ``kinds``: server → kinds of its moves, for servers that
    may be moved. ``most``, ``most_gib``: limits of all moves.
    """

    cloud: Cloud
    rows: Collection[int]
    kinds: Mapping[str, tuple[MoveKind, ...]]
    most: int | None
    most_gib: float | None
    check: Callable[[], None]

    def moves(self) -> list[PlannedMove]:
        """Free hosts as long as the limits allow it; return the moves. Raises: RuleFailed."""
        found: list[PlannedMove] = []
        gib = 0.0
        outside = set(self.cloud.hosts.hosts) - {self.cloud.hosts.hosts[row] for row in self.rows}
        closed = outside | {self.cloud.hosts.hosts[row] for row in self.rows if not self.cloud.hosts.num_instances[row]}
        taken: set[str] = set()
        for row in self._candidates():
            host = self.cloud.hosts.hosts[row]
            if host in taken:
                continue  # it has taken servers that have moved already
            some = self._emptied(row, closed, len(found), gib)
            for move in some or ():
                self.cloud.move(move.server, move.row)
                taken.add(self.cloud.hosts.hosts[move.row])
                gib += move.gib
            if some:
                found += some
                closed.add(host)
        return found

    def _candidates(self) -> list[int]:
        """Return the hosts whose servers are all known and movable, those with the least GiB first."""
        found = []
        for row in self.rows:
            servers = self.cloud.servers_on(row)
            is_known = len(servers) == int(self.cloud.hosts.num_instances[row]) > 0
            if is_known and all(server.uuid in self.kinds for server in servers):
                gib = sum(min(map(server.copied_gib, self.kinds[server.uuid])) for server in servers)
                found.append((gib, len(servers), row))
        return [row for _, _, row in sorted(found)]

    def _emptied(self, row: int, closed: Collection[str], count: int, gib: float) -> list[PlannedMove] | None:
        """Return moves that empty a host within the limits, or None. The cloud does not change."""
        servers = sorted(self.cloud.servers_on(row), key=lambda each: (-_size(each), each.uuid))
        if self.most is not None and count + len(servers) > self.most:
            return None
        destinations = Destinations(self.cloud, {*closed, self.cloud.hosts.hosts[row]}, tight=True)
        found: list[PlannedMove] = []
        with self.cloud.branch():
            for server in servers:
                self.check()
                to = destinations.find(server, self.kinds[server.uuid])
                if to is None:
                    return None
                found.append(PlannedMove(server, row, to.row, to.kind))
                gib += found[-1].gib
                if self.most_gib is not None and gib > self.most_gib:
                    return None
                self.cloud.move(server, to.row)
        return found


def _size(server: PlannedServer) -> int:
    return server.spec.query.totals.get("MEMORY_MB", 0)
