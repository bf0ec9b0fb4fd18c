# SPDX-License-Identifier: Apache-2.0
"""Many servers of one request, each decided as if the ones before it were on their hosts already.

::

    whole decision for the first ─▶ place ─▶ ask again about the host that took it ─▶ next decision ─▶ place ─▶ …

What comes out is, to the bit, what one whole decision a server gives. What is saved is the work on hosts for which
nothing has changed since the server before.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kilonova.errors import RuleFailed
from kilonova.model.host_devices import DeviceShare
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.decision import SURVIVED, Decision, RankedHost, RuleCount
from kilonova.scheduler.engine import Engine, Trace, ranked_host
from kilonova.scheduler.funnel import LaterFilter, LaterPlacement, LaterRoom, is_forced, later_filters
from kilonova.scheduler.guests import guest_of
from kilonova.scheduler.host_table import ALL_ROWS, BoolArray, FloatArray, HostTable, IntArray, Rows
from kilonova.scheduler.provider_trees import Allocations
from kilonova.scheduler.ranking import (
    Scale,
    Share,
    blaming,
    counts_nothing,
    ratings,
    scale,
    total,
    weigher_failed,
    weighted,
)
from kilonova.scheduler.rule import Weigher, rule_name

EARLIER = "earlier"
_PASSED_OVER = "passed over for an earlier server of the request"
_NOBODY: IntArray = np.zeros(0, dtype=np.int64)
_MANY = 64


class Batch:
    """Decides the servers of one request one after the other.

    ``hosts``: a snapshot whose own columns (``used``, ``num_instances``, …) the batch may write to.
    ``spec``: as for the first server; :attr:`spec` is as for the next one, with the group's members counted.
    A server after the first is only offered hosts that were left for the one before it.
    Source: spec SCHEDULER §12.
    """

    def __init__(
        self,
        engine: Engine,
        hosts: HostTable,
        spec: RequestSpec,
        *,
        limit: int,
        rng: np.random.Generator | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.spec = spec
        self._engine = engine
        self._hosts = hosts
        self._limit = limit
        self._rng = rng
        self._trace = trace
        self._first: Decision | None = None
        self._rules: tuple[LaterRoom | LaterPlacement | LaterFilter, ...] | None = None
        self._standings: _Standings | None = None
        self._alive = hosts.everyone
        self._removed_by = np.zeros(0, dtype=np.uint8)
        self._left = len(hosts)
        self._touched: IntArray = _NOBODY
        self._part_rows: IntArray | None = None
        self._part_table = hosts

    def decide(self) -> Decision:
        """Return the decision for the next server. Raises: RuleFailed, when a rule raises or answers nonsense."""
        if self._first is None:
            self._first = self._engine.decide(
                self._hosts, self.spec, limit=self._limit, rng=self._rng, trace=self._trace
            )
            return self._first
        return self._decide_later(self._limit, self._rng)

    def alternates(self, count: int, chosen: Collection[str]) -> tuple[RankedHost, ...]:
        """Return the best ``count`` hosts for one more server that are none of the ``chosen`` service hosts.

        They are what is left to try when a spawn fails; fewer, when fewer are left.
        """
        if self._first is None or not count:
            return ()
        ranked = self._decide_later(count + len(chosen), None).ranked
        return tuple(host for host in ranked if host.host not in chosen)[:count]

    def place(self, row: int, allocations: Allocations | None = None, share: DeviceShare | None = None) -> None:
        """Count a server on ``row`` from now on: what it takes of each provider, and its place in the group.

        ``share``: what it takes of NUMA cells and PCI pools.
        ``allocations``: as the engine gives them, for a caller who has asked already.
        """
        host = self._hosts.hosts[row]
        given = allocations or self._engine.allocations(self._hosts, self.spec, row)
        self._hosts.count_server(row, given, guest_of(self.spec), share)
        if self.spec.group is not None:
            self.spec = replace(self.spec, group=self.spec.group.with_members(host))
        rows = np.array(self._hosts.rows_of_host()[host], dtype=np.int64)
        self._touched = np.union1d(self._touched, rows) if len(self._touched) else rows

    def _begin(self, first: Decision) -> tuple[LaterRoom | LaterPlacement | LaterFilter, ...]:
        self._alive = first.removed_by == SURVIVED
        self._left = first.survivors
        self._removed_by = np.where(self._alive, np.uint8(SURVIVED), np.uint8(0))
        return (*self._engine.later_room(self._hosts, self.spec), *later_filters(self.spec, self._engine.filters))

    def _decide_later(self, limit: int, rng: np.random.Generator | None) -> Decision:
        assert self._first is not None
        rules = self._rules = self._rules or self._begin(self._first)
        touched = self._touched[self._alive[self._touched]]
        counts = [RuleCount(EARLIER, _PASSED_OVER, len(self._hosts), self._left)]
        removed_by = self._removed_by.copy()
        changed = touched
        for rule in rules:
            if not self._left:
                break
            before = self._left
            lost = self._lost_by(rule, touched)
            if len(lost):
                self._alive[lost] = False
                self._left -= len(lost)
                removed_by[lost] = min(len(counts), SURVIVED - 1)
                self._removed_by[lost] = 0
                if not (isinstance(rule, LaterRoom) or (isinstance(rule, LaterFilter) and rule.only_where_placed)):
                    changed = np.union1d(changed, lost)
                touched = touched[self._alive[touched]]
            counts.append(RuleCount(rule.rule, rule.reason, before, self._left))
            if self._trace is not None:
                self._trace(rule.rule, self._alive)
        self._touched = _NOBODY
        if not self._left:
            # Who is refused wants to know of every host, also of those that the servers before have filled.
            whole = self._engine.decide(self._hosts, self.spec, limit=limit)
            if not whole.ranked:
                return whole
        ranked = self._rank(changed, limit, rng)
        return Decision(ranked, tuple(counts), removed_by, self._left, is_forced(self.spec))

    def _lost_by(self, rule: LaterRoom | LaterPlacement | LaterFilter, touched: IntArray) -> IntArray:
        """Return the rows that ``rule`` loses now. ``touched``: rows still in whose use has changed."""
        if isinstance(rule, LaterRoom):
            return rule.lost(self._hosts, touched) if len(touched) else touched
        if isinstance(rule, LaterPlacement):
            return np.flatnonzero(self._alive & ~rule.passes(self._hosts, self._alive))
        if not rule.only_where_placed:
            mask = rule.passes(self._hosts, self.spec, self._alive)
            return _NOBODY if mask is self._hosts.everyone else np.flatnonzero(self._alive & ~mask)
        if not len(touched):
            return touched
        table = self._part(touched)
        return touched[~rule.passes(table, self.spec, table.everyone)]

    def _part(self, rows: IntArray) -> HostTable:
        """Return the table of ``rows``, as long as no server is placed meanwhile."""
        if self._part_rows is not rows:
            self._part_rows, self._part_table = rows, self._hosts.take(rows)
        return self._part_table

    def _rank(self, changed: IntArray, limit: int, rng: np.random.Generator | None) -> tuple[RankedHost, ...]:
        if not self._left:
            return ()
        if self._standings is None or len(changed) > _MANY:
            self._standings = _Standings.of(self._engine.weighers, self._hosts, self.spec, self._alive)
        else:
            left = changed[self._alive[changed]]
            part = self._part(left) if len(left) else None
            self._standings.follow(self._hosts, self.spec, self._alive, changed, part)
        standings, parts = self._standings, []
        if self._left > 1:
            parts, scores = standings.shares(), standings.scores
        else:  # no weigher runs for a single host
            scores = np.where(standings.alive, 0.0, -np.inf)
        order = self._engine.order(scores, self._left, limit, rng)
        return tuple(ranked_host(self._hosts, int(standings.rows[place]), int(place), scores, parts) for place in order)


@dataclass(slots=True)
class _Standing:
    """One weigher's ratings of the hosts, kept up to date. Shapes: ``raw``, ``share`` (N,).

    ``smallest`` / ``largest``: of the hosts still in, ``at_smallest`` / ``at_largest`` of which have that rating.
    ``is_flat``: all hosts still in have the same rating; then nobody is counted.
    """

    weigher: Weigher
    name: str
    factors: float | FloatArray
    raw: FloatArray
    only_where_placed: bool
    smallest: float = 0.0
    largest: float = 0.0
    at_smallest: int = 0
    at_largest: int = 0
    is_flat: bool = False
    scale: Scale | None = None
    share: FloatArray | None = None

    def survey(self, alive: BoolArray) -> None:
        """Find the ends anew among the hosts still in."""
        left = self.raw[alive]
        self.smallest, self.largest = float(left.min()), float(left.max())
        self.is_flat = self.smallest == self.largest
        self.at_smallest = int(np.count_nonzero(left == self.smallest))
        self.at_largest = int(np.count_nonzero(left == self.largest))

    def drop(self, place: int) -> None:
        """Leave a host out from now on."""
        if self.is_flat:
            return
        old = float(self.raw[place])
        self.at_smallest -= old == self.smallest
        self.at_largest -= old == self.largest

    def rate(self, place: int, rating: float) -> None:
        """Take over a new rating."""
        if not math.isfinite(rating):
            raise ValueError("a weigher's ratings must be finite numbers")
        if self.is_flat:
            if rating != self.smallest:
                self.raw[place] = rating
                self.is_flat = False
                self.at_smallest = self.at_largest = 0
            return
        self.drop(place)
        self.raw[place] = rating
        if rating < self.smallest:
            self.smallest, self.at_smallest = rating, 0
        if rating > self.largest:
            self.largest, self.at_largest = rating, 0
        self.at_smallest += rating == self.smallest
        self.at_largest += rating == self.largest

    def rate_anew(self, alive: BoolArray, ratings_now: FloatArray) -> None:
        """Take over the ratings of all hosts still in."""
        self.raw[alive] = ratings_now
        self.at_smallest = self.at_largest = 0
        self.is_flat = False

    def rescale(self, alive: BoolArray, places: IntArray) -> bool:
        """Bring shares up to date: those of ``places``, or all when the ends have moved. Return whether it was all.

        Raises: ValueError, for ratings or multipliers that are no finite numbers.
        """
        if self.is_flat:
            return False
        if not (self.at_smallest and self.at_largest):
            self.survey(alive)
        ends = scale(self.smallest, self.largest, self.weigher.minimum, self.weigher.maximum)
        if ends != self.scale or not self.only_where_placed:
            self.scale = ends
            self.share = None if ends is None else weighted(ends.applied(self.raw), self.factors)
            return True
        if ends is not None and self.share is not None and len(places):
            factors = self.factors if isinstance(self.factors, float | int) else self.factors[places]
            self.share[places] = weighted(ends.applied(self.raw[places]), factors)
        return False


@dataclass(slots=True)
class _Standings:
    """Every weigher's ratings, and the scores. Shapes: ``rows`` (N,) of the table; ``alive``, ``scores`` (N,)."""

    rows: IntArray
    alive: BoolArray
    names: tuple[str, ...]
    standings: list[_Standing] = field(default_factory=list)
    scores: FloatArray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, weighers: Sequence[Weigher], hosts: HostTable, spec: RequestSpec, alive: BoolArray) -> "_Standings":
        """Rate everybody who is left."""
        rows = np.flatnonzero(alive)
        everyone = np.ones(len(rows), dtype=np.bool_)
        made = cls(rows, everyone, tuple(rule_name(weigher) for weigher in weighers))
        for weigher, name in zip(weighers, made.names, strict=True):
            with blaming(name):
                factors = weigher.factors(hosts, rows)
                if counts_nothing(factors):
                    continue
                local = bool(getattr(weigher, "only_where_placed", False))
                standing = _Standing(weigher, name, factors, _rated(weigher, hosts, spec, rows), local)
                standing.rescale(everyone, _NOBODY)
                made.standings.append(standing)
        made.scores = total(made.shares(), len(rows))
        return made

    def follow(
        self, hosts: HostTable, spec: RequestSpec, alive: BoolArray, changed: IntArray, part: HostTable | None
    ) -> None:
        """Rate the ``changed`` rows again, and everybody where a weigher asks for it.

        ``part``: the table of those of the changed rows that are still in, None when none is.
        """
        places = np.searchsorted(self.rows, changed)
        self.alive[places] = alive[changed]
        out, left = places[~self.alive[places]].tolist(), places[self.alive[places]]
        moved = False
        for standing in self.standings:
            try:
                if not standing.only_where_placed:
                    rows = self.rows[self.alive]
                    standing.rate_anew(self.alive, _rated(standing.weigher, hosts, spec, rows))
                else:
                    for place in out:
                        standing.drop(place)
                    if part is not None:
                        now = _rated(standing.weigher, part, spec, ALL_ROWS)
                        for place, rating in zip(left.tolist(), now.tolist(), strict=True):
                            standing.rate(place, rating)
                moved |= standing.rescale(self.alive, left)
            except RuleFailed:
                raise
            except Exception as error:  # third-party code; a context manager a weigher would cost more than the rest
                raise weigher_failed(standing.name) from error
        if moved:
            self.scores = total(self.shares(), len(self.rows))
            self.scores[~self.alive] = -np.inf
            return
        self.scores[out] = -np.inf
        if len(left):
            self.scores[left] = total([_at(share, left) for share in self.shares()], len(left))

    def shares(self) -> list[Share]:
        by_name = {standing.name: standing.share for standing in self.standings}
        return [Share(name, by_name.get(name)) for name in self.names]


def _rated(weigher: Weigher, hosts: HostTable, spec: RequestSpec, rows: Rows) -> FloatArray:
    count = len(hosts) if isinstance(rows, slice) else len(rows)
    raw = ratings(weigher, hosts, spec, rows, count)
    return np.zeros(count) if raw is None else raw.copy()


def _at(share: Share, places: IntArray) -> Share:
    return Share(share.weigher, None if share.values is None else share.values[places])
