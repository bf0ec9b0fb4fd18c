# SPDX-License-Identifier: Apache-2.0
"""The decision engine: runs the rules in order, counts the hosts that each rule removes, and ranks the other hosts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.decision import SURVIVED, Decision, RankedHost, RuleCount
from kilonova.scheduler.engine.funnel import (
    LaterPlacement,
    LaterRoom,
    allotment_at,
    conditions,
    filtered,
    funnel,
    is_forced,
    later_room,
)
from kilonova.scheduler.engine.provider_trees import Allocations, Allotment, is_plain
from kilonova.scheduler.engine.ranking import Share, best, shares, total
from kilonova.scheduler.engine.step import Step
from kilonova.scheduler.host_table import ALL_ROWS, BoolArray, FloatArray, HostTable, IntArray, Rows
from kilonova.scheduler.rule import Filter, RequestFilter, Weigher

Trace = Callable[[RuleCount, BoolArray], None]
"""Callback after each rule. Arguments: the rule's host counts, and the mask of the remaining hosts. Shapes: (H,)."""


@dataclass(frozen=True, slots=True)
class Engine:
    """The configured rules. Decisions are deterministic: equal inputs give bit-identical results.

    ``host_subset_size``: if a random generator is given, the first host is chosen at random from this number of hosts.
    ``shuffle``: if a random generator is given, hosts that share the best score are in random order.
    ``pcpu_fallback``: a server with pinned CPUs may use VCPU inventory on hosts without PCPU inventory.
    Source: spec SCHEDULER §1, §5, §12.
    """

    request_filters: tuple[RequestFilter, ...] = ()
    filters: tuple[Filter, ...] = ()
    weighers: tuple[Weigher, ...] = ()
    host_subset_size: int = 1
    shuffle: bool = False
    pcpu_fallback: bool = True

    @property
    def takes_chances(self) -> bool:
        """True if the configuration makes decisions depend on a random generator."""
        return self.host_subset_size > 1 or self.shuffle

    def decide(
        self,
        hosts: HostTable,
        spec: RequestSpec,
        *,
        limit: int,
        rng: np.random.Generator | None = None,
        trace: Trace | None = None,
    ) -> Decision:
        """Return the best ``limit`` hosts for the first server of a request, and which rule removed each removed host.

        A host is counted as removed by the first rule that rejects it. When no host is left, the next rules do not run.
        ``Batch`` decides the further servers of the request.

        Raises: RuleFailed, if a rule raises an exception or returns an invalid result.
        """
        alive = all_hosts = hosts.all_hosts
        left = len(hosts)
        counts: list[RuleCount] = []
        passed = np.zeros(left, dtype=np.uint8)  # number of rules that each host has passed
        steps = self.funnel(hosts, spec, lambda: alive)
        for step in steps:
            before = left
            if step.mask is not all_hosts:
                alive = alive & step.mask
                left = int(np.count_nonzero(alive))
            counts.append(RuleCount(step.rule, step.reason, before, left))
            if trace is not None:
                trace(counts[-1], alive)
            if len(counts) < SURVIVED:
                passed += alive.view(np.uint8)
            if not left:
                break
        return Decision(
            ranked=self._rank(hosts, spec, alive, left, limit, rng),
            steps=tuple(counts),
            removed_by=passed | alive * np.uint8(SURVIVED),
            survivors=left,
            forced=is_forced(spec),
        )

    def funnel(self, hosts: HostTable, spec: RequestSpec, still_in: Callable[[], BoolArray]) -> Iterator[Step]:
        """Yield the verdict of each rule, in order.

        ``still_in``: returns the mask of the hosts that all previous rules accepted. Shapes: → (H,).
        """
        return funnel(hosts, self._as_read(spec), self.request_filters, self.filters, still_in)

    def has_same_conditions(self, one: AggregateIndex, other: AggregateIndex, spec: RequestSpec) -> bool:
        """Tell whether the request filters add the same conditions to a request for two states of the aggregates."""
        spec = self._as_read(spec)
        return one is other or (
            conditions(one, spec, self.request_filters) == conditions(other, spec, self.request_filters)
        )

    def allocations(self, hosts: HostTable, spec: RequestSpec, row: int) -> Allocations:
        """Return the allocations by provider that one server of the request would have on the host at ``row``."""
        return self.allotment(hosts, spec, row).amounts

    def allotment(self, hosts: HostTable, spec: RequestSpec, row: int) -> Allotment:
        """Return the allocations of one server on the host at ``row``, and the provider of each request group."""
        spec = self._as_read(spec)
        if is_plain(hosts, spec.query):
            return Allotment({hosts.uuids[row]: spec.query.totals})
        return allotment_at(hosts, filtered(hosts, spec, self.request_filters).query, row)

    def later_room(self, hosts: HostTable, spec: RequestSpec) -> tuple[LaterRoom | LaterPlacement, ...]:
        """Return the Placement conditions that must be checked again for every server of a request except the first."""
        return later_room(hosts, self._as_read(spec), self.request_filters)

    def _as_read(self, spec: RequestSpec) -> RequestSpec:
        """Return the request without the PCPU fallback of its query, unless ``pcpu_fallback`` is set."""
        if self.pcpu_fallback or spec.query.fallback is None:
            return spec
        return replace(spec, query=replace(spec.query, fallback=None))

    def _rank(
        self,
        hosts: HostTable,
        spec: RequestSpec,
        alive: BoolArray,
        left: int,
        limit: int,
        rng: np.random.Generator | None,
    ) -> tuple[RankedHost, ...]:
        """Rate the remaining hosts and return the best ``limit``. Weighers do not run if only one host remains."""
        if not left:
            return ()
        rows: Rows = ALL_ROWS if left == len(hosts) else np.flatnonzero(alive)
        parts = shares(self.weighers, hosts, spec, rows, left) if left > 1 else []
        scores = total(parts, left)
        order = self.order(scores, left, limit, rng)
        chosen = order if isinstance(rows, slice) else rows[order]
        return tuple(
            ranked_host(hosts, row, place, scores, parts)
            for row, place in zip(chosen.tolist(), order.tolist(), strict=True)
        )

    def order(self, scores: FloatArray, left: int, limit: int, rng: np.random.Generator | None) -> IntArray:
        """Return the indices of the ``limit`` best scores.

        ``left``: the number of finite scores; scores of removed hosts are minus infinity. The order is random only if
        ``rng`` is given and ``host_subset_size`` or ``shuffle`` is set.
        """
        if rng is None or not self.takes_chances:
            return best(scores, min(limit, left))
        order = best(scores, min(max(limit, self.host_subset_size), left))
        if self.shuffle:
            equals = np.flatnonzero(scores == scores[order[0]])
            order = np.concatenate([rng.permutation(equals), order[len(equals) :]])
        if self.host_subset_size > 1:
            pick = int(rng.integers(min(self.host_subset_size, len(order))))
            order = np.concatenate([order[pick : pick + 1], np.delete(order, pick)])
        return order[:limit]


def ranked_host(hosts: HostTable, row: int, place: int, scores: FloatArray, parts: Sequence[Share]) -> RankedHost:
    """Return the RankedHost of a table row. ``place``: index of the host in ``scores`` and ``parts``."""
    return RankedHost(
        row=row,
        host=hosts.hosts[row],
        node=hosts.nodes[row],
        uuid=hosts.uuids[row],
        score=float(scores[place]),
        weights={part.weigher: 0.0 if part.values is None else float(part.values[place]) for part in parts},
    )
