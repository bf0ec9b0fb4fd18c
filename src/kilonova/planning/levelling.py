# SPDX-License-Identifier: Apache-2.0
"""Levelling: moves that make hosts equally used, one after the other, each the best that the scheduler accepts.

The *dispersion* of a resource class in a pool of hosts is the mean of the squared distance between each host's usage
share and that of the whole pool. It is 0 if all hosts have the same share. Moves within a pool keep its share, so the
effects of moves that share no host add up.

Axes: H hosts, R the levelled resource classes, S servers.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilonova.model.server_migration import MoveKind
from kilonova.planning.cloud import Cloud
from kilonova.planning.destinations import Destinations
from kilonova.planning.plan import PlannedMove
from kilonova.planning.planned_server import PlannedServer
from kilonova.records import dataclass
from kilonova.scheduler.decision import SURVIVED
from kilonova.scheduler.devices.choice import first_that_gives

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
#: A move is not worth its cost if it gains less than this share of the first deviation, divided by the number of hosts.
LEAST_GAIN = 0.01
#: Least divisor of the dispersion of a class, as a share of the largest standard deviation of all classes.
FLOOR = 0.25
#: Number of servers that are examined for one move.
_MOST_EXAMINED = 30
#: Servers whose estimated gain is less than this share of the best gain so far are not examined.
_HOPEFUL = 0.5
_ROWS_TRIED = 3
#: Number of servers in a row that are examined without finding a better move.
_IN_VAIN = 5
#: Standard deviations below this share of the largest one count as this share when gains are estimated.
_FLAT = 0.001


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
        self._hosts = np.maximum(np.count_nonzero(self._has, axis=0), 1)
        self._target = self._shares_of_pools()
        self._rows_in_pools = np.flatnonzero(number >= 0)
        self._counts = np.zeros((int(number.max(initial=-1)) + 1, len(self.classes)))
        np.add.at(self._counts, number[number >= 0], self._has[number >= 0])
        self._counts = np.maximum(self._counts, 1.0)
        first = self.deviations()
        least = FLOOR * first.max(initial=0.0)
        self._divisors = np.maximum(first, least if least > 0 else 1.0)

    def _used(self) -> FloatArray:
        used = self._cloud.hosts.used[:, self._columns].astype(np.float64)
        return np.where(self._has, used, 0.0)

    def imbalance(self) -> float:
        """Return the sum over the classes of the dispersion, divided by the standard deviation before all moves.

        Before all moves, this is the sum of the standard deviations. It only falls if moves that gain are carried out,
        in any order if they share no host.
        """
        return float((self.dispersions() / self._divisors).sum())

    def deviations(self) -> FloatArray:
        """Return the standard deviation of the shares of each class. Units: shares of capacity. Shapes: → (R,)."""
        return np.asarray(np.sqrt(self._variances()))

    def deviation_after(self, amounts: FloatArray, row: int, falls: FloatArray) -> FloatArray:
        """Return the sum of the standard deviations after a server has moved from a host to each host of its pool.

        ``falls``: by how much each of these moves lowers the dispersions. Shapes: ``amounts`` (R,), ``falls`` (H, R)
        → (H,).
        """
        share = np.where(self._has, amounts / self._capacity, 0.0)
        count, offset = self._counts[self.number[row]], self._offsets()[self.number[row]]
        moved = (offset + (share - share[row]) / count) ** 2 - offset**2
        later = self._variances() - falls - moved * count / self._hosts
        return np.asarray(np.sqrt(np.maximum(later, 0.0)).sum(axis=1))

    def _variances(self) -> FloatArray:
        mean = (self._offsets() ** 2 * self._counts).sum(axis=0) / self._hosts
        return np.asarray(np.maximum(self.dispersions() - mean, 0.0))

    def _offsets(self) -> FloatArray:
        """Return the mean distance of the hosts of each pool from the share of the pool. Shapes: → (pools, R)."""
        rows, pools = self._rows_in_pools, len(self._counts)
        distance = np.where(self._has, self._used() / self._capacity - self._target, 0.0)[rows]
        sums = np.zeros(self._counts.shape)
        for place, column in enumerate(distance.T):
            sums[:, place] = np.bincount(self.number[rows], column, minlength=pools)
        return sums / self._counts

    def dispersions(self) -> FloatArray:
        """Return the dispersion of each class. Units: squared shares of capacity. Shapes: → (R,)."""
        distance = np.where(self._has, self._used() / self._capacity - self._target, 0.0)
        return np.asarray((distance**2).sum(axis=0) / self._hosts)

    def _shares_of_pools(self) -> FloatArray:
        """Return the usage share of each host's pool. Shapes: → (H, R)."""
        used, shares = self._used(), np.zeros(self._has.shape)
        for pool in range(int(self.number.max(initial=-1)) + 1):
            mine = self._has & (self.number == pool)[:, np.newaxis]
            amount, capacity = (np.where(mine, each, 0.0).sum(axis=0) for each in (used, self._capacity))
            shares += mine * (amount / np.maximum(capacity, 1.0))
        return shares

    def slopes(self) -> FloatArray:
        """Return by how much the imbalance rises per dispersion of each class. Shapes: → (R,)."""
        return np.asarray(1.0 / self._divisors)

    def gain(self, fall: FloatArray) -> FloatArray:
        """Return how much the imbalance falls if the dispersions fall. Shapes: (N, R) → (N,)."""
        return np.asarray((fall / self._divisors).sum(axis=-1))

    def amounts(self, server: PlannedServer) -> FloatArray:
        """Return what a server takes of the levelled classes. Shapes: → (R,)."""
        held = self._cloud.held(server)
        assert held is not None
        given = held.allocations.get(self._cloud.hosts.uuids[held.row], {})
        return np.array([given.get(name, 0) for name in self.classes], dtype=np.float64)

    def relief(self, amounts: FloatArray, rows: IntArray) -> FloatArray:
        """Return by how much the dispersions fall if each host loses a server. Shapes: (N, R), (N,) → (N, R)."""
        capacity = self._capacity[rows]
        distance, share = self._used()[rows] / capacity - self._target[rows], amounts / capacity
        return np.asarray(np.where(self._has[rows], 2 * distance * share - share**2, 0.0) / self._hosts)

    def burden(self, amounts: FloatArray) -> FloatArray:
        """Return by how much the dispersions rise if each host gets a server. Shapes: (R,) → (H, R)."""
        distance, share = self._used() / self._capacity - self._target, amounts / self._capacity
        return np.asarray(np.where(self._has, 2 * distance * share + share**2, 0.0) / self._hosts)


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
        hosts = max(int(np.count_nonzero(self._pools.number >= 0)), 1)
        least, count, gib = LEAST_GAIN * float(self._pools.deviations().sum()) / hosts, 0, 0.0
        while most is None or count < most:
            self._check()
            left = None if most_gib is None else most_gib - gib
            found = self._best(least, left) or self._best(least, left, by_imbalance=True)
            if found is None:
                return
            self._waits[found.place] = False
            self._cloud.move(found.move.server, found.move.row)
            count, gib = count + 1, gib + found.move.gib
            yield found.move

    def _best(self, least: float, gib: float | None, *, by_imbalance: bool = False) -> "_Candidate | None":
        """Return the move that gains most, or None if none gains enough.

        The gain is the fall of the sum of the standard deviations, or ``by_imbalance`` that of the imbalance, which may
        fall although the sum does not. Only moves that lower the imbalance count.
        """
        if not len(self._movers):
            return None
        deviations = self._pools.deviations()
        slopes = self._pools.slopes() if by_imbalance else _slopes(deviations)
        relief = self._pools.relief(self._amounts[self._kind], self._rows)
        burdens = [self._pools.burden(amounts) for amounts in self._amounts]
        estimate = relief @ slopes - self._least_burden([burden @ slopes for burden in burdens])
        estimate[~self._waits] = -np.inf
        best: _Candidate | None = None
        known: dict[tuple[int, int], FloatArray] = {}
        in_vain = 0
        for place in np.argsort(-estimate, kind="stable")[:_MOST_EXAMINED].tolist():
            if estimate[place] <= 0 or (best is not None and estimate[place] < _HOPEFUL * best.gain):
                break
            mover = self._movers[place]
            if gib is not None and min(map(mover.server.copied_gib, mover.kinds)) > gib:
                continue
            alike = mover.server.row, mover.kind_of_amounts
            if alike not in known:
                known[alike] = self._gains(*alike, by_imbalance=by_imbalance)
            gains = known[alike]
            before = best
            best = self._better(place, gains, best, least, gib)
            in_vain = in_vain + 1 if best is not None and best is before else 0
            if in_vain >= _IN_VAIN:
                break
        return best

    def _gains(self, row: int, kind_of_amounts: int, *, by_imbalance: bool) -> FloatArray:
        """Return the gains of the moves of a server from a host to each host. Shapes: → (H,)."""
        amounts = self._amounts[kind_of_amounts]
        falls = self._pools.relief(amounts, np.array([row])) - self._pools.burden(amounts)
        lower = self._pools.gain(falls)
        if by_imbalance:
            return np.asarray(np.where(lower > 0, lower, -np.inf))
        gains = self._pools.deviations().sum() - self._pools.deviation_after(amounts, row, falls)
        return np.asarray(np.where(lower > 0, gains, -np.inf))

    def _least_burden(self, burdens: Sequence[FloatArray]) -> FloatArray:
        """Return, for each mover, the least burden of any host in its pool. Shapes: → (S,)."""
        number = self._pools.number
        least = np.full((len(burdens), int(number.max(initial=0)) + 1), np.inf)
        for kind, burden in enumerate(burdens):
            np.minimum.at(least[kind], number[number >= 0], burden[number >= 0])
        return np.asarray(least[self._kind, number[self._rows]])

    def _better(
        self, place: int, gains: FloatArray, best: "_Candidate | None", least: float, gib: float | None
    ) -> "_Candidate | None":
        """Return the best move of a server that the scheduler accepts if it gains more than ``best``, else ``best``.

        Shapes: ``gains`` (H,).
        """
        mover = self._movers[place]
        server, number = mover.server, self._pools.number
        most = max(least, 0.0 if best is None else best.gain)
        if gains[number == number[server.row]].max(initial=-np.inf) <= most:
            return best
        for kind in mover.kinds:
            if gib is not None and server.copied_gib(kind) > gib:
                continue
            decision = self._destinations.decide(server, kind)
            if first_that_gives(decision, self._cloud.hosts, server.needs)[0] is None:
                continue
            rows = np.flatnonzero((decision.removed_by == SURVIVED) & (number == number[server.row]) & (gains > most))
            for row in rows[np.argsort(-gains[rows], kind="stable")][:_ROWS_TRIED].tolist():
                to = self._destinations.find(server, (kind,), to=self._cloud.hosts.hosts[row])
                if to is not None and to.row == row:
                    return _Candidate(place, float(gains[row]), PlannedMove(server, server.row, row, kind))
        return best


def _slopes(deviations: FloatArray) -> FloatArray:
    """Return by how much each standard deviation rises per dispersion; a deviation near 0 is treated as a small one."""
    least = max(_FLAT * float(deviations.max(initial=0.0)), np.finfo(np.float64).tiny)
    return np.asarray(0.5 / np.maximum(deviations, least))


class _Candidate(NamedTuple):
    """A possible move. ``place``: of its server among the movers."""

    place: int
    gain: float
    move: PlannedMove
