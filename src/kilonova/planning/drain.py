# SPDX-License-Identifier: Apache-2.0
"""Drains: moves that empty hosts, in waves, and the servers that must stay.

Each server leaves by one move. Only if a server fits on no host, other servers are moved to make room for it, those of
the fewest GiB first. Servers that are hard to place are placed first.
"""

from collections.abc import Callable, Sequence

from kilonova.model.move_plan import How
from kilonova.model.server_migration import MoveKind
from kilonova.planning.checked_waves import checked
from kilonova.planning.cloud import Cloud
from kilonova.planning.destinations import Destinations, Found
from kilonova.planning.making_room import MakingRoom
from kilonova.planning.order_of_moves import in_waves
from kilonova.planning.plan import NO_LIMITS, Limits, Plan, PlannedMove, Stay, possible_kinds, refusal
from kilonova.planning.planned_server import PlannedServer
from kilonova.records import dataclass

#: Number of candidates that the search for room tries.
TRIES = 400


@dataclass(frozen=True, slots=True)
class DrainRequest:
    """What to drain. ``hosts``: names of service hosts. ``locked_too``: whether locked servers are moved.

    ``avoiding``: service hosts that no move may choose, besides those to drain. ``tries``: effort of making room.
    """

    hosts: frozenset[str]
    how: How = How.EITHER
    limits: Limits = NO_LIMITS
    locked_too: bool = False
    avoiding: frozenset[str] = frozenset()
    tries: int = TRIES


def drain(cloud: Cloud, asked: DrainRequest, check: Callable[[], None] = lambda: None) -> Plan:
    """Return the moves that empty hosts. The cloud does not change.

    ``check``: called regularly; stops the computation by an exception.
    Raises: RuleFailed; what ``check`` raises.
    """
    rows = [row for host in sorted(asked.hosts) for row in cloud.hosts.rows_of_host().get(host, ())]
    servers = [server for row in rows for server in cloud.servers_on(row)]
    best: _Attempt | None = None
    for tight in (False, True):
        with cloud.branch():
            attempt = _Attempt(cloud, asked, check, tight=tight)
            attempt.place(servers)
            if attempt.left and tight:
                attempt.make_room()
            attempt.explain()
        if best is None or attempt.cost() < best.cost():
            best = attempt
        if not attempt.left:
            break
    assert best is not None
    done, refused = checked(cloud, in_waves(cloud, best.moves.values(), asked.limits), check)
    return Plan(done, tuple(sorted([*best.stays, *refused], key=lambda stay: stay.server.uuid)))


class _Attempt:
    """One attempt to place the servers of a drain. ``left``: the servers without a destination, with their kinds."""

    def __init__(self, cloud: Cloud, asked: DrainRequest, check: Callable[[], None], *, tight: bool) -> None:
        self._cloud, self._asked, self._check = cloud, asked, check
        self._destinations = Destinations(cloud, asked.hosts | asked.avoiding, tight=tight)
        #: Server → its move, in the order of the moves.
        self.moves: dict[str, PlannedMove] = {}
        self.stays: list[Stay] = []
        self.left: dict[str, tuple[PlannedServer, tuple[MoveKind, ...]]] = {}
        #: Server → what it can do, for servers that leave a host of the drain.
        self._kinds: dict[str, tuple[MoveKind, ...]] = {}
        self._displaced: set[str] = set()

    def cost(self) -> tuple[int, float, int]:
        return len(self.left), sum(move.gib for move in self.moves.values()), len(self.moves)

    def place(self, servers: Sequence[PlannedServer]) -> None:
        """Place servers directly, until no further one finds a host."""
        movable = []
        for server in servers:
            kinds = possible_kinds(server, self._asked.how, locked_too=self._asked.locked_too)
            if isinstance(kinds, Stay):
                self.stays.append(kinds)
            else:
                self._kinds[server.uuid] = kinds
                movable.append((server, kinds))
        sizes = _Sizes(self._cloud)
        self.left = {each[0].uuid: each for each in sorted(movable, key=lambda each: sizes.order(each[0]))}
        while self._place_left():
            pass

    def _place_left(self) -> bool:
        placed = False
        for server, kinds in list(self.left.values()):
            self._check()
            found = self._destinations.find(server, kinds)
            if found is not None:
                self._move(server, found)
                del self.left[server.uuid]
                placed = True
        return placed and bool(self.left)

    def _move(self, server: PlannedServer, found: Found) -> None:
        before = self.moves.pop(server.uuid, None)
        source = self._cloud.row_of(server) if before is None else before.source
        assert source is not None, "the server is on no host"
        self._cloud.move(server, found.row)
        self.moves[server.uuid] = PlannedMove(server, source, found.row, found.kind)

    def make_room(self) -> None:
        """Find room for the servers that are left by moving others."""
        search = MakingRoom(self._destinations, self._kinds_of, self._cost_of, self._asked.tries)
        for server, kinds in list(self.left.values()):
            self._check()
            room = search.find(server, kinds)
            if room is None:
                continue
            for each in room.displaced:
                self._move(each.server, each.to)
                if each.server.uuid not in self._kinds:
                    self._displaced.add(each.server.uuid)
            self._move(server, room.to)
            del self.left[server.uuid]

    def _kinds_of(self, server: PlannedServer) -> tuple[MoveKind, ...]:
        if server.uuid in self._displaced:
            return ()  # later moves count on the host that it has left
        if server.uuid in self._kinds:
            return self._kinds[server.uuid]
        kinds = possible_kinds(server, self._asked.how, locked_too=self._asked.locked_too)
        return () if isinstance(kinds, Stay) else kinds

    def _cost_of(self, server: PlannedServer) -> float:
        return 0.0 if server.uuid in self._kinds else server.copied_gib(self._kinds_of(server)[0])

    def explain(self) -> None:
        """Turn the servers that are left into stays."""
        leaving = self._destinations.leaving
        self.stays += [refusal(self._cloud, server, kinds[0], leaving) for server, kinds in self.left.values()]


class _Sizes:
    """The order in which servers are placed: those with special wishes first, then by size."""

    def __init__(self, cloud: Cloud) -> None:
        hosts = cloud.hosts
        total = hosts.capacity.sum(axis=0).tolist()
        self._total = dict(zip(hosts.resource_classes, total, strict=True))
        self._cloud = cloud

    def order(self, server: PlannedServer) -> tuple[bool, float, str]:
        spec = server.spec
        group = self._cloud.groups.get(server.group_uuid or "")
        is_bound = group is not None and not group.policy.startswith("soft")
        special = bool(server.needs or is_bound or spec.hints or spec.flavor.extra_specs or spec.availability_zone)
        size = max((amount / max(self._total.get(name, 1), 1) for name, amount in spec.query.totals.items()), default=0)
        return not special, -size, server.uuid
