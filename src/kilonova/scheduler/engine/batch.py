# SPDX-License-Identifier: Apache-2.0
"""Decisions for many servers of one request. Each decision counts the usage of the servers placed before.

::

       full decision for the first ─▶ place ─▶ judge the chosen host again ─▶ next decision ─▶ place ─▶ …

    The results are bit-identical to full decisions for all servers. A host is judged again only if a placed server can
    have changed the result of a rule for the host.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from kilonova.model.host_devices import DeviceShare
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.decision import SURVIVED, Decision, RankedHost, RuleCount
from kilonova.scheduler.engine.engine import Engine, Trace, ranked_host
from kilonova.scheduler.engine.funnel import LaterFilter, LaterPlacement, LaterRoom, is_forced, later_filters
from kilonova.scheduler.engine.incremental_scores import LISTED, IncrementalScores
from kilonova.scheduler.engine.lookahead import Lookahead, LookaheadCache
from kilonova.scheduler.engine.provider_trees import Allocations
from kilonova.scheduler.engine.ranking import best
from kilonova.scheduler.guests import guest_of
from kilonova.scheduler.host_table import HostTable, IntArray

EARLIER = "earlier"
_SKIPPED = "rejected for an earlier server of the request"
_NO_ROWS: IntArray = np.zeros(0, dtype=np.int64)
_MANY = 64
_Rule = LaterRoom | LaterPlacement | LaterFilter


class Batch:
    """Decisions for the servers of one request, made one after the other.

    ``hosts``: a snapshot whose ``used``, ``num_instances`` and other usage columns the batch may change.
    ``spec``: the request of the first server. The attribute :attr:`spec` is the request of the next server, with the
    servers placed so far counted as members of its group.
    ``first``: the decision for the first server, if it is known. ``listed``: see :class:`IncrementalScores`.
    A later server can use only the hosts that were valid for the server before it.
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
        first: Decision | None = None,
        listed: int = LISTED,
    ) -> None:
        self._engine = engine
        self._listed = listed
        self._hosts = hosts
        self._members = {} if spec.group is None else dict(spec.group.hosts)
        self.spec = spec if spec.group is None else replace(spec, group=replace(spec.group, hosts=self._members))
        self._guest = guest_of(spec)
        self._limit = limit
        self._rng = rng
        self._trace = trace
        self._first: Decision | None = None
        self._given = first
        self._rules: tuple[_Rule, ...] | None = None
        self._foreseen_rules: Mapping[int, LaterRoom | LaterFilter] | None = None
        self._scores: IncrementalScores | None = None
        self._lookaheads: LookaheadCache | None = None
        self._alive = hosts.all_hosts
        self._removed_by = np.zeros(0, dtype=np.uint8)
        self._left = len(hosts)
        self._touched: list[int] = []
        self._one_more = False
        self._part_rows: IntArray | None = None
        self._part_table = hosts

    def decide(self) -> Decision:
        """Return the decision for the next server.

        Raises: RuleFailed, if a rule raises an exception or returns an invalid result.
        """
        if self._first is None:
            self._first = self._given or self._engine.decide(
                self._hosts, self.spec, limit=self._limit, rng=self._rng, trace=self._trace
            )
            return self._first
        return self._decide_later(self._limit, self._rng)

    def alternates(self, count: int, chosen: Collection[str]) -> tuple[RankedHost, ...]:
        """Return the best ``count`` hosts for one more server, without the ``chosen`` service hosts.

        A build tries these hosts (the alternates) after a failed spawn. The result can be shorter than ``count``.
        """
        if self._first is None or not count:
            return ()
        rows_of_host = self._hosts.rows_of_host()
        still_in = sum(bool(self._alive[row]) for host in chosen for row in rows_of_host[host])
        ranked = self._decide_later(count + still_in, None).ranked
        return tuple(host for host in ranked if host.host not in chosen)[:count]

    def place(self, row: int, allocations: Allocations | None = None, share: DeviceShare | None = None) -> None:
        """Place a server on ``row``: count its usage and its membership in the server group for the next decisions.

        ``share``: the NUMA cells and PCI devices that the server takes.
        ``allocations``: the result of ``Engine.allocations``; if None, this method computes the allocations.
        """
        host = self._hosts.hosts[row]
        given = allocations or self._engine.allocations(self._hosts, self.spec, row)
        self._hosts.count_server(row, given, self._guest, share)
        self._members[host] = self._members.get(host, 0) + 1
        rows = self._hosts.rows_of_host()[host]
        self._one_more = not self._touched and not share and len(rows) == 1
        self._touched.extend(rows)

    def _begin(self, first: Decision) -> tuple[_Rule, ...]:
        self._alive = first.removed_by == SURVIVED
        self._left = first.survivors
        self._removed_by = np.where(self._alive, np.uint8(SURVIVED), np.uint8(0))
        room = self._engine.later_room(self._hosts, self.spec)
        rules = (*room, *later_filters(self.spec, self._engine.filters))
        if not any(isinstance(rule, LaterPlacement) for rule in rules):
            self._foreseen_rules = {
                number: rule
                for number, rule in enumerate(rules)
                if isinstance(rule, LaterRoom) or (isinstance(rule, LaterFilter) and rule.only_where_placed)
            }
        return rules

    def _decide_later(self, limit: int, rng: np.random.Generator | None) -> Decision:
        assert self._first is not None
        rules = self._rules = self._begin(self._first) if self._rules is None else self._rules
        touched = np.array(sorted({row for row in self._touched if self._alive[row]}), dtype=np.int64)
        lookahead = self._lookahead(touched)
        counts = [RuleCount(EARLIER, _SKIPPED, len(self._hosts), self._left)]
        removed_by = self._removed_by.copy()
        changed = touched
        for number, rule in enumerate(rules):
            if not self._left:
                break
            before = self._left
            lost = self._lost_by(number, rule, touched, lookahead)
            if len(lost):
                self._alive[lost] = False
                self._left -= len(lost)
                removed_by[lost] = min(len(counts), SURVIVED - 1)
                self._removed_by[lost] = 0
                if lost is not touched:
                    changed = np.union1d(changed, lost)
                touched = touched[self._alive[touched]]
            counts.append(RuleCount(rule.rule, rule.reason, before, self._left))
            if self._trace is not None:
                self._trace(counts[-1], self._alive)
        self._touched = []
        if not self._left:
            # A refused request must report rejection counts of all hosts, including hosts that earlier servers filled.
            whole = self._engine.decide(self._hosts, self.spec, limit=limit)
            if not whole.ranked:
                return whole
        ranked = self._rank(changed, lookahead, limit, rng)
        return Decision(ranked, tuple(counts), removed_by, self._left, is_forced(self.spec))

    def _lookahead(self, touched: IntArray) -> Lookahead | None:
        """Return the precomputed verdict on the only host that changed, or None if the rules must judge hosts again."""
        if self._lookaheads is None or self._left == 1:
            return None
        if len(touched) == 1 and self._one_more:
            return self._lookaheads.of(int(touched[0]), self.spec, self._likely)
        self._lookaheads.forget()
        return None

    def _likely(self, count: int) -> IntArray:
        assert self._scores is not None
        places = best(self._scores.scores, min(count, self._left))
        return self._scores.rows[places]

    def _lost_by(self, number: int, rule: _Rule, touched: IntArray, lookahead: Lookahead | None) -> IntArray:
        """Return the rows that a rule newly excludes. ``touched``: the remaining rows whose usage has changed."""
        if isinstance(rule, LaterPlacement):
            return np.flatnonzero(self._alive & ~rule.passes(self._hosts, self._alive))
        if isinstance(rule, LaterFilter) and not rule.only_where_placed:
            mask = rule.passes(self._hosts, self.spec, self._alive)
            return _NO_ROWS if mask is self._hosts.all_hosts else np.flatnonzero(self._alive & ~mask)
        if lookahead is not None:
            return touched if lookahead.lost_to == number else _NO_ROWS
        if not len(touched):
            return touched
        if isinstance(rule, LaterRoom):
            return rule.lost(self._hosts, touched)
        table = self._part(touched)
        return touched[~rule.passes(table, self.spec, table.all_hosts)]

    def _part(self, rows: IntArray) -> HostTable:
        """Return the host table reduced to ``rows``. The table is cached for repeated calls with the same array."""
        if self._part_rows is not rows:
            self._part_rows, self._part_table = rows, self._hosts.take(rows)
        return self._part_table

    def _rank(
        self, changed: IntArray, lookahead: Lookahead | None, limit: int, rng: np.random.Generator | None
    ) -> tuple[RankedHost, ...]:
        if not self._left:
            return ()
        if self._left == 1:  # a single host needs no weighing, and later servers of the request have no further hosts
            (row,) = np.flatnonzero(self._alive).tolist()
            scores = np.zeros(1)
            order = self._engine.order(scores, 1, limit, rng)
            return tuple(ranked_host(self._hosts, row, place, scores, []) for place in order.tolist())
        incremental = self._scores
        if incremental is None or len(changed) > _MANY:
            incremental = self._scores = IncrementalScores.of(
                self._engine.weighers, self._hosts, self.spec, self._alive, listed=self._listed
            )
            self._look_ahead(incremental)
        elif lookahead is not None and len(changed) == 1:
            row = int(changed[0])
            if self._alive[row]:
                incremental.rate(row, lookahead.ratings)
            else:
                incremental.drop(row)
        else:
            left = changed[self._alive[changed]]
            part = self._part(left) if len(left) else None
            incremental.follow(self._hosts, self.spec, self._alive, changed, part)
        if rng is None or not self._engine.takes_chances:
            order = incremental.best(min(limit, self._left))
        else:
            order = self._engine.order(incremental.scores, self._left, limit, rng)
        return tuple([self._ranked(incremental, place) for place in order.tolist()])

    def _ranked(self, incremental: IncrementalScores, place: int) -> RankedHost:
        known = incremental.ranked.get(place)
        if known is None:
            row = int(incremental.rows[place])
            known = ranked_host(self._hosts, row, place, incremental.scores, incremental.shares)
            incremental.ranked[place] = known
        return known

    def _look_ahead(self, incremental: IncrementalScores) -> None:
        """Start to precompute verdicts, if placing a server changes the verdict and rating of the chosen host only."""
        self._lookaheads = None
        if self._foreseen_rules is not None and incremental.are_local:
            weighers = [each.weigher for each in incremental.by_weigher]
            self._lookaheads = LookaheadCache(self._hosts, self._foreseen_rules, weighers)
