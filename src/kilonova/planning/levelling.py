# SPDX-License-Identifier: Apache-2.0
"""Levelling: moves that make hosts equally used, one after the other, each the best that the scheduler accepts.

The *dispersion* of a resource class in a pool of hosts is the mean, weighted by capacity, of the squared distance
between each host's usage share and that of the pool. It is 0 if all hosts have the same share. In terms of the usage u
and the capacity c of the hosts, it differs from the sum of u²/c by constants: moves within a pool keep its usage.

Axes: H hosts, R the levelled resource classes, S servers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilonova.model.server_migration import MoveKind
from kilonova.planning.cloud import Cloud, DoesNotFitError
from kilonova.planning.destinations import Destinations
from kilonova.planning.plan import PlannedMove
from kilonova.planning.planned_server import PlannedServer
from kilonova.scheduler.decision import SURVIVED
from kilonova.scheduler.devices.choice import first_that_gives

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
#: A move that gains less than this share of the first dispersion is not worth its cost.
LEAST_GAIN = 0.001
#: Number of servers that are examined for one move.
_MOST_EXAMINED = 50


class Pools:
    """Hosts that are levelled among themselves. ``number``: (H,) the pool of each host; -1 for hosts in no pool.

    ``classes``: the levelled resource classes.
    """

    def __init__(self, cloud: Cloud, number: IntArray, classes: Sequence[str]) -> None:
        hosts = cloud.hosts
        self._cloud = cloud
        self.number = number
        self.classes = tuple(name for name in classes if hosts.column(name) is not None)
        self._columns = [hosts.column(name) or 0 for name in self.classes]
        capacity = hosts.capacity[:, self._columns].astype(np.float64)
        self._has = (capacity > 0) & (number >= 0)[:, np.newaxis]
        self._capacity = np.where(self._has, capacity, 1.0)
        self._sum = np.maximum(np.where(self._has, capacity, 0.0).sum(axis=0), 1.0)

    def _used(self) -> FloatArray:
        used = self._cloud.hosts.used[:, self._columns].astype(np.float64)
        return np.where(self._has, used, 0.0)

    def dispersion(self) -> float:
        """Return the dispersion of all pools, summed over the classes. Units: squared shares of capacity."""
        used, total = self._used(), 0.0
        for pool in range(int(self.number.max(initial=-1)) + 1):
            mine = self._has & (self.number == pool)[:, np.newaxis]
            amount, capacity = (np.where(mine, each, 0.0).sum(axis=0) for each in (used, self._capacity))
            squares = np.where(mine, used**2 / self._capacity, 0.0).sum(axis=0)
            total += float(((squares - amount**2 / np.maximum(capacity, 1.0)) / self._sum).sum())
        return max(total, 0.0)

    def amounts(self, server: PlannedServer) -> FloatArray:
        """Return what a server takes of the levelled classes. Shapes: → (R,)."""
        held = self._cloud.held(server)
        assert held is not None
        given = held.allocations.get(self._cloud.hosts.uuids[held.row], {})
        return np.array([given.get(name, 0) for name in self.classes], dtype=np.float64)

    def relief(self, amounts: FloatArray, rows: IntArray) -> FloatArray:
        """Return by how much the dispersion falls if each host loses a server. Shapes: (N, R), (N,) → (N,)."""
        used, capacity = self._used()[rows], self._capacity[rows]
        gains = np.where(self._has[rows], (2 * used * amounts - amounts**2) / capacity, 0.0) / self._sum
        return np.asarray(gains.sum(axis=1))

    def burden(self, amounts: FloatArray) -> FloatArray:
        """Return by how much the dispersion rises if each host gets a server. Shapes: (R,) → (H,)."""
        used = self._used()
        rises = np.where(self._has, (2 * used * amounts + amounts**2) / self._capacity, 0.0) / self._sum
        return np.asarray(rises.sum(axis=1))


@dataclass(frozen=True, slots=True)
class Mover:
    """A server that may be moved, with the kinds of its moves. ``kind_of_amounts``: number of its distinct amounts."""

    server: PlannedServer
    kinds: tuple[MoveKind, ...]
    kind_of_amounts: int


class Levelling:
    """The search for moves. ``movers``: the servers that may be moved, each once."""

    def __init__(
        self,
        cloud: Cloud,
        pools: Pools,
        movers: Sequence[tuple[PlannedServer, tuple[MoveKind, ...]]],
        check: Callable[[], None],
    ) -> None:
        self._cloud, self._pools, self._check = cloud, pools, check
        self._destinations = Destinations(cloud, ())
        kinds: dict[tuple[float, ...], int] = {}
        self._movers: list[Mover] = []
        for server, possible in movers:
            amounts = tuple(pools.amounts(server).tolist())
            if any(amounts) and pools.number[server.row] >= 0:
                self._movers.append(Mover(server, possible, kinds.setdefault(amounts, len(kinds))))
        self._amounts = np.array(list(kinds), dtype=np.float64).reshape(len(kinds), len(pools.classes))
        self._kind = np.array([mover.kind_of_amounts for mover in self._movers], dtype=np.int64)
        self._rows = np.array([mover.server.row for mover in self._movers], dtype=np.int64)
        self._waits = np.ones(len(self._movers), dtype=np.bool_)

    def moves(self, *, most: int | None, most_gib: float | None) -> Iterator[PlannedMove]:
        """Make the best moves on the cloud, one after the other, and yield them. Raises: RuleFailed."""
        least, count, gib = LEAST_GAIN * self._pools.dispersion(), 0, 0.0
        while most is None or count < most:
            self._check()
            found = self._best(least, None if most_gib is None else most_gib - gib)
            if found is None:
                return
            place, move = found
            try:
                self._cloud.move(move.server, move.row)
            except DoesNotFitError:
                self._waits[place] = False
                continue
            self._waits[place] = False
            count, gib = count + 1, gib + move.gib
            yield move

    def _best(self, least: float, gib: float | None) -> tuple[int, PlannedMove] | None:
        """Return the place and the move of the server whose move gains most, or None if none gains enough."""
        if not len(self._movers):
            return None
        relief = self._pools.relief(self._amounts[self._kind], self._rows)
        burdens = [self._pools.burden(amounts) for amounts in self._amounts]
        bound = relief - self._least_burden(burdens)
        bound[~self._waits] = -np.inf
        best: tuple[float, float, int, PlannedMove] | None = None
        order = np.argsort(-bound, kind="stable")[:_MOST_EXAMINED]
        for place in order.tolist():
            if bound[place] <= max(least, best[0] if best is not None else 0.0):
                break
            mover = self._movers[place]
            if gib is not None and min(map(mover.server.copied_gib, mover.kinds)) > gib:
                continue
            found = self._judged(mover, float(relief[place]), burdens[mover.kind_of_amounts], gib)
            if found is not None and found[0] > least and (best is None or found[0] > best[0]):
                best = found[0], found[1].gib, place, found[1]
        return None if best is None else (best[2], best[3])

    def _least_burden(self, burdens: Sequence[FloatArray]) -> FloatArray:
        """Return, for each mover, the least burden of any host in its pool. Shapes: → (S,)."""
        number = self._pools.number
        least = np.full((len(burdens), int(number.max(initial=0)) + 1), np.inf)
        for kind, burden in enumerate(burdens):
            np.minimum.at(least[kind], number[number >= 0], burden[number >= 0])
        return np.asarray(least[self._kind, number[self._rows]])

    def _judged(
        self, mover: Mover, relief: float, burden: FloatArray, gib: float | None
    ) -> tuple[float, PlannedMove] | None:
        """Return the best move of a server that the scheduler accepts, with its gain."""
        server, number = mover.server, self._pools.number
        for kind in mover.kinds:
            if gib is not None and server.copied_gib(kind) > gib:
                continue
            decision = self._destinations.decide(server, kind)
            if first_that_gives(decision, self._cloud.hosts, server.needs)[0] is None:
                continue
            rows = np.flatnonzero((decision.removed_by == SURVIVED) & (number == number[server.row]))
            for row in rows[np.argsort(burden[rows], kind="stable")][:3].tolist():
                to = self._destinations.find(server, (kind,), to=self._cloud.hosts.hosts[row])
                if to is not None and to.row == row:
                    return relief - float(burden[row]), PlannedMove(server, server.row, row, kind)
        return None
