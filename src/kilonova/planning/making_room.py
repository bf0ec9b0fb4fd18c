# SPDX-License-Identifier: Apache-2.0
"""Room for a server that fits on no host: a bounded search for servers that can be moved off one host first."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kilonova.model.server_migration import MoveKind
from kilonova.planning.destinations import Destinations, Found
from kilonova.planning.planned_server import PlannedServer

#: Number of servers that may be moved off one host for one server.
_MOST_MOVED = 3

KindsOf = Callable[[PlannedServer], Sequence[MoveKind]]


class Displaced(NamedTuple):
    """A server that makes room, and where it goes."""

    server: PlannedServer
    to: Found


class Room(NamedTuple):
    """How a server gets room: the other servers that are moved first, in order, and its own destination."""

    displaced: tuple[Displaced, ...]
    to: Found


class MakingRoom:
    """The search for room on a cloud.

    ``kinds_of``: returns the kinds of moves of another server; none if it must not be moved. ``cost``: returns the GiB
    of moving it. ``tries``: number of candidates to try in all.
    """

    def __init__(
        self, destinations: Destinations, kinds_of: KindsOf, cost: Callable[[PlannedServer], float], tries: int
    ) -> None:
        self._destinations = destinations
        self._cloud = destinations.cloud
        self._kinds_of = kinds_of
        self._cost = cost
        self.tries = tries

    def find(self, server: PlannedServer, kinds: Sequence[MoveKind]) -> Room | None:
        """Return the cheapest room found for a server, or None. The cloud does not change. Raises: RuleFailed."""
        for some in self._candidates(server, kinds[0]):
            if self.tries <= 0:
                return None
            self.tries -= 1
            room = self._try(server, kinds, some)
            if room is not None:
                return room
        return None

    def _candidates(self, server: PlannedServer, kind: MoveKind) -> Iterator[tuple[PlannedServer, ...]]:
        """Yield sets of servers of one host each, cheapest first, without which the host might have room."""
        decision = self._destinations.decide(server, kind)
        hosts = self._cloud.hosts
        rows = np.flatnonzero(self._destinations.may_get_room(decision))
        rows = rows[[hosts.hosts[row] not in self._destinations.leaving for row in rows.tolist()]]
        found: list[tuple[float, int, str, tuple[PlannedServer, ...]]] = []
        for row in rows.tolist():
            sets = self._sets(server, row)
            found += [(sum(map(self._cost, some)), len(some), some[0].uuid, some) for some in sets]
        found.sort(key=lambda each: each[:3])
        yield from (each[3] for each in found)

    def _sets(self, server: PlannedServer, row: int) -> Iterator[tuple[PlannedServer, ...]]:
        """Yield sets of servers on a host whose resources together cover what the server lacks there."""
        lacking = self._lacking(server, row)
        if lacking is None:
            return
        movable = [each for each in self._cloud.servers_on(row) if each is not server and self._kinds_of(each)]
        movable.sort(key=lambda each: (self._cost(each), each.uuid))
        enough = [each for each in movable if all(self._held(each, name) >= least for name, least in lacking.items())]
        yield from ((each,) for each in enough)
        if enough or not lacking:
            return
        some: list[PlannedServer] = []
        for each in sorted(movable, key=lambda each: -sum(self._held(each, name) for name in lacking)):
            some.append(each)
            if all(sum(self._held(one, name) for one in some) >= least for name, least in lacking.items()):
                yield tuple(some)
                return
            if len(some) == _MOST_MOVED:
                return

    def _held(self, server: PlannedServer, name: str) -> int:
        held = self._cloud.held(server)
        assert held is not None
        return held.allocations.get(self._cloud.hosts.uuids[held.row], {}).get(name, 0)

    def _lacking(self, server: PlannedServer, row: int) -> dict[str, int] | None:
        """Return resource class → amount that the host lacks for the server; None if an empty host lacks it, too."""
        hosts = self._cloud.hosts
        found = {}
        for name, amount in server.spec.query.totals.items():
            column = hosts.column(name)
            if column is None or hosts.capacity[row, column] < amount:
                if server.spec.query.fallback is not None:
                    continue
                return None
            lacks = amount - int(hosts.capacity[row, column] - hosts.used[row, column])
            if lacks > 0:
                found[name] = lacks
        return found

    def _try(self, server: PlannedServer, kinds: Sequence[MoveKind], others: Sequence[PlannedServer]) -> Room | None:
        cloud = self._cloud
        row = cloud.row_of(others[0])
        assert row is not None, "the server is on no host"
        host = cloud.hosts.hosts[row]
        displaced: list[Displaced] = []
        with cloud.branch():
            for each in others:
                found = self._destinations.find(each, self._kinds_of(each))
                if found is None:
                    return None
                cloud.move(each, found.row)
                displaced.append(Displaced(each, found))
            to = self._destinations.find(server, kinds, to=host)
            return None if to is None else Room(tuple(displaced), to)
