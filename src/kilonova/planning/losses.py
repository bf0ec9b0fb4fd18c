# SPDX-License-Identifier: Apache-2.0
"""Losses of hosts: do their servers fit elsewhere, and how many are left over.

The servers of lost hosts are evacuated one after the other, the largest first (memory, then VCPUs, then disk, then the
uuid), each to the host that the scheduler chooses. A server that no host can take is left over; another order or other
hosts may leave fewer. Each server is active again before the next one is evacuated.

A loss need not be tried if the result is certain. If a placed server changes the verdicts on its own host only, the
n-th server finds a host whenever n hosts are valid for it at the beginning. Members of an affinity group are refused if
all members are on one lost host: the group must stay on a host that is lost.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import combinations, islice
from math import comb

import numpy as np

from kilonova.planning.cloud import Cloud
from kilonova.planning.evacuations import Evacuations
from kilonova.planning.hindrance import Hindrance, hindrances_of
from kilonova.planning.places import zones
from kilonova.planning.planned_server import PlannedServer
from kilonova.records import dataclass
from kilonova.scheduler.decision import Decision
from kilonova.scheduler.host_table import BoolArray, IntArray

LOST = "lost"
"""Rule of lost hosts in the reasons why a server is left over."""
MOST_SETS = 10_000
"""Limit of the number of sets of hosts of a zone whose loss is tried."""


@dataclass(frozen=True, slots=True)
class LeftOver:
    """A server that no host can take, and why. The first reason counts the lost hosts."""

    server: PlannedServer
    reasons: tuple[Hindrance, ...]


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss of hosts. ``rows``: their rows. ``servers``: number of their servers."""

    rows: tuple[int, ...]
    servers: int
    left_over: tuple[LeftOver, ...]


@dataclass(frozen=True, slots=True)
class ZoneLosses:
    """The losses of any ``k`` hosts of a zone, or of the whole zone.

    ``sets``: number of the sets of hosts. ``tried``: number of those that were tried; hosts with the most memory in use
    come first. ``proved``: whether the servers of every set surely fit. ``worst``: a loss with the most servers left
    over.
    """

    zone: str
    hosts: int
    k: int
    sets: int
    tried: int
    proved: bool
    worst: Loss | None

    @property
    def survives(self) -> bool | None:
        """Whether all servers fit elsewhere at any of the losses; None if not all of them were tried."""
        if self.worst is not None and self.worst.left_over:
            return False
        return True if self.proved or self.tried == self.sets else None


class Losses:
    """Losses of hosts of a cloud. The cloud must have all servers of the hosts, and is unchanged afterwards.

    ``check``: called regularly; stops the computation by an exception. ``tries_all``: also try losses whose result is
    certain.
    """

    def __init__(self, cloud: Cloud, check: Callable[[], None] = lambda: None, *, tries_all: bool = False) -> None:
        self.cloud = cloud
        self._tries_all = tries_all
        self._check = check
        self._evacuations = Evacuations(cloud)
        self._sorted: dict[int, tuple[PlannedServer, ...]] = {}

    def of_host(self, host: str) -> Loss:
        """Return the loss of one service host, with all its nodes. Raises: RuleFailed."""
        return self.of(self.cloud.hosts.rows_of_host()[host])

    def of(self, rows: Collection[int]) -> Loss:
        """Return the loss of the hosts at ``rows``. Raises: RuleFailed."""
        self._check()
        lost = tuple(sorted(rows))
        servers = self._servers(lost)
        at = np.array(lost, dtype=np.int64)
        certain = None if self._tries_all else self._certain(servers, at)
        if certain is not None:
            return Loss(lost, len(servers), certain)
        kept = np.ones(len(self.cloud.hosts), dtype=np.bool_)
        kept[at] = False
        left_over = []
        with self._evacuations.losing(lost):
            for server in servers:
                self._check()
                refusal = self._evacuations.evacuate(server)
                if refusal is not None:
                    left_over.append(LeftOver(server, _reasons(refusal, kept)))
        return Loss(lost, len(servers), tuple(left_over))

    def of_zones(self, default: str) -> Iterator[ZoneLosses]:
        """Yield the loss of each availability zone. ``default``: the zone of hosts in no other. Raises: RuleFailed."""
        for zone in zones(self.cloud.hosts, default):
            rows = np.flatnonzero(zone.members).tolist()
            yield ZoneLosses(zone.name or "", len(rows), len(rows), 1, 1, False, self.of(rows))

    def of_any(self, k: int, default: str, *, most: int = MOST_SETS) -> Iterator[ZoneLosses]:
        """Yield the losses of any ``k`` service hosts of each availability zone. Raises: RuleFailed.

        ``default``: the zone of hosts in no other. ``most``: number of sets of hosts to try in each zone.
        """
        nodes = self.cloud.hosts.rows_of_host()
        for zone in zones(self.cloud.hosts, default):
            members = [name for name, rows in nodes.items() if zone.members[rows[0]]]
            yield self._of_zone(zone.name or "", members, min(k, len(members)), most)

    def _of_zone(self, zone: str, members: Sequence[str], k: int, most: int) -> ZoneLosses:
        nodes = self.cloud.hosts.rows_of_host()
        sets = comb(len(members), k)
        if self._any_fit([nodes[name] for name in members], k):
            return ZoneLosses(zone, len(members), k, sets, 0, True, None)
        memory = self.cloud.hosts.column("MEMORY_MB")
        used = self.cloud.hosts.used[:, 0 if memory is None else memory]
        heaviest = sorted(members, key=lambda name: (-sum(int(used[row]) for row in nodes[name]), name))
        worst: Loss | None = None
        tried = 0
        for chosen in islice(combinations(heaviest, k), most):
            loss = self.of([row for name in chosen for row in nodes[name]])
            tried += 1
            if worst is None or len(loss.left_over) > len(worst.left_over):
                worst = loss
        return ZoneLosses(zone, len(members), k, sets, tried, False, worst)

    def _certain(self, servers: Sequence[PlannedServer], lost: IntArray) -> tuple[LeftOver, ...] | None:
        """Return the servers that are left over, or None if the evacuations must be tried."""
        refused = []
        for before, server in enumerate(servers):
            if not self._evacuations.surely_fits(server, lost, before):
                reason = self._evacuations.surely_refused(server, lost)
                if reason is None:
                    return None
                refused.append(LeftOver(server, (_lost(len(lost)), reason)))
        return tuple(refused)

    def _any_fit(self, hosts: Sequence[Sequence[int]], k: int) -> bool:
        """Tell whether all servers surely fit at the loss of any ``k`` of the service hosts."""
        counts = sorted((sum(len(self._of_row(row)) for row in rows) for rows in hosts), reverse=True)
        rows_lost = sum(sorted((len(rows) for rows in hosts), reverse=True)[:k])
        before = sum(counts[:k]) - 1 + rows_lost
        none = np.zeros(0, dtype=np.int64)
        every = (server for rows in hosts for row in rows for server in self._of_row(row))
        return all(self._evacuations.surely_fits(server, none, before) for server in every)

    def _servers(self, rows: Sequence[int]) -> tuple[PlannedServer, ...]:
        if len(rows) == 1:
            return self._of_row(rows[0])
        return tuple(sorted((server for row in rows for server in self._of_row(row)), key=_order))

    def _of_row(self, row: int) -> tuple[PlannedServer, ...]:
        found = self._sorted.get(row)
        if found is None:
            found = self._sorted[row] = tuple(sorted(self.cloud.servers_on(row), key=_order))
        return found


def _lost(hosts: int) -> Hindrance:
    return Hindrance(LOST, "is lost", hosts)


def _reasons(refusal: Decision, kept: BoolArray) -> tuple[Hindrance, ...]:
    """Return why hosts reject a server; lost hosts count as such. ``kept``: the other hosts. Shapes: ``kept`` (H,)."""
    return (_lost(int(np.count_nonzero(~kept))), *hindrances_of(refusal, kept))


def _order(server: PlannedServer) -> tuple[int, int, int, str]:
    """Return the sort key of the order of evacuations."""
    totals = server.spec.query.totals
    memory, vcpus, disk = (totals.get(name, 0) for name in ("MEMORY_MB", "VCPU", "DISK_GB"))
    return -memory, -(vcpus + totals.get("PCPU", 0)), -disk, server.uuid
