# SPDX-License-Identifier: Apache-2.0
"""Search for nearest misses: the smallest changes that make a refused request fit, each verified by a new decision.

A combination of fewer changes is smaller than a combination of more changes. Combinations of equally many changes are
compared by the sum of their sizes (see ``changes.py``). A single sufficient change is always found if one exists among
the known kinds of changes. A reported combination has no superfluous change.

Algorithm: each possible change is applied to all hosts at once, and all rules run. The result is, for each host, the
set of rules that still exclude the host. If this set is empty for a host, the single change suffices. Otherwise changes
are combined so that each rule that excludes a host is covered by one change. In clouds with more than ``_MOST_HOSTS``
hosts, the hosts are grouped by the rules that exclude them, and only the ``_OF_ONE_KIND`` closest of a group are
examined.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from kilonova.errors import RuleFailed
from kilonova.model.request_spec import RequestSpec, ResourceQuery
from kilonova.placement.capacity import within_units
from kilonova.records import dataclass
from kilonova.scheduler.decision import Decision
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.explanations.changes import Change, apply_changes
from kilonova.scheduler.explanations.explain import Explanation, explain
from kilonova.scheduler.explanations.host_changes import free_change, host_changes, instances_change, io_ops_change
from kilonova.scheduler.explanations.request_changes import amount_change, can_change, request_changes
from kilonova.scheduler.host_table import FloatArray, HostTable, IntArray
from kilonova.scheduler.resources import with_resources

_MOST_HOSTS = 2_048
_OF_ONE_KIND = 64
_COMBINED_HOSTS = 64
_MOST_RULES = 10
_MOST_BITS = 62
_MOST_WALKS = 48
_MOST_CONFIRMED = 8
_CPUS = frozenset({"VCPU", "PCPU"})
#: Resource classes of which a server needs at least 1; the amount of any other class may become 0.
_NEEDED = _CPUS | {"MEMORY_MB"}


@dataclass(frozen=True, slots=True)
class NearestMiss:
    """Changes that together make a refused request fit, smallest first.

    ``host``, ``node``: the best host after the changes. ``hindrances``: (rule, reason) of the rules that exclude this
    host before the changes. ``fitting``: number of hosts that fit after the changes.
    """

    changes: tuple[Change, ...]
    host: str
    node: str
    hindrances: tuple[tuple[str, str], ...]
    fitting: int

    @property
    def size(self) -> float:
        return sum(change.size for change in self.changes)


@dataclass(frozen=True, slots=True)
class _Option:
    """A possible change, or several changes of one family, evaluated for each host.

    ``count``: number of changes. ``changes``: returns the changes for the host at a row.
    Shapes: ``remaining`` (H,), bits of the rules that exclude the host after the changes; ``size`` (H,).
    """

    remaining: IntArray
    size: FloatArray
    count: int
    changes: Callable[[int], tuple[Change, ...]]


def nearest_misses(hosts: HostTable, spec: RequestSpec, engine: Engine, *, limit: int = 3) -> tuple[NearestMiss, ...]:
    """Return the smallest changes that make the request fit, at most ``limit``; none if the request already fits.

    ``spec``: the original request without its Placement query; the query is computed again for each change.

    Raises: RuleFailed, if a rule fails on the unchanged request.
    """
    if not len(hosts):
        return ()
    story = explain(hosts, with_resources(spec), engine)
    if story.passed.any():
        return ()
    search = _Search(hosts, spec, engine, story)
    return search.verified(search.singles(), limit) or search.verified(search.combined(), limit)


class _Search:
    """The examined hosts and the possible changes that could make them fit. Axes: H the examined hosts."""

    def __init__(self, hosts: HostTable, spec: RequestSpec, engine: Engine, story: Explanation) -> None:
        self._all_hosts, self._spec, self._engine, self._story = hosts, spec, engine, story
        self._bit_of: dict[str, int] = {}
        bits = self._bits(story)
        self._rows = _closest(hosts, with_resources(spec), bits)
        self._hosts = hosts if len(self._rows) == len(hosts) else hosts.take(self._rows)
        self._now = bits[self._rows]
        self._options = tuple(self._all_options())

    def singles(self) -> Iterator[tuple[Change, ...]]:
        """Yield single changes that probably suffice, smallest first."""
        found: list[tuple[float, int, int, _Option]] = []
        for place, option in enumerate(self._options):
            rows = np.flatnonzero(option.remaining == 0) if option.count == 1 else ()
            if len(rows):
                row = int(rows[np.argmin(option.size[rows])])
                found.append((float(option.size[row]), place, row, option))
        for _, _, row, option in sorted(found, key=lambda one: one[:3]):
            yield option.changes(row)

    def combined(self) -> Iterator[tuple[Change, ...]]:
        """Yield combinations of changes that probably suffice, smallest estimate first."""
        hindrances = _counts(self._now)
        found = [
            (*best[:2], row, best[2])
            for row in np.argsort(hindrances, kind="stable")[:_COMBINED_HOSTS].tolist()
            if hindrances[row] <= _MOST_RULES and (best := self._cover(row)) is not None
        ]
        for _, _, row, options in sorted(found, key=lambda one: one[:3]):
            yield tuple(change for option in options for change in option.changes(row))

    def verified(self, candidates: Iterable[tuple[Change, ...]], limit: int) -> tuple[NearestMiss, ...]:
        """Return the first ``limit`` candidates that a new decision confirms; superfluous changes are removed."""
        found: dict[frozenset[str], NearestMiss] = {}
        for changes in candidates:
            miss = self._verify(changes)
            if miss is not None:
                found.setdefault(frozenset(change.text for change in miss.changes), miss)
            if len(found) >= limit:
                break
        return tuple(sorted(found.values(), key=lambda miss: (len(miss.changes), miss.size)))

    def _verify(self, changes: tuple[Change, ...]) -> NearestMiss | None:
        decision = self._decide(changes)
        if decision is None:
            return None
        for change in sorted(changes, key=lambda one: -one.size):
            fewer = tuple(each for each in changes if each is not change)
            if fewer and (still := self._decide(fewer)) is not None:
                changes, decision = fewer, still
        best = decision.ranked[0]
        ordered = tuple(sorted(changes, key=lambda one: one.size))
        return NearestMiss(ordered, best.host, best.node, self._story.reasons(best.row), decision.survivors)

    def _decide(self, changes: Sequence[Change]) -> Decision | None:
        """Return the decision on all hosts after the changes, or None if no host fits or a rule fails."""
        hosts, spec = apply_changes(self._all_hosts, self._spec, changes)
        try:
            decision = self._engine.decide(hosts, with_resources(spec), limit=1)
        except RuleFailed:
            return None
        return decision if decision.ranked else None

    def _cover(self, row: int) -> tuple[int, float, tuple[_Option, ...]] | None:
        """Return the smallest set of options that covers all rules which exclude the host at ``row``.

        The result is (number of changes, sum of their sizes, options), or None if no set covers all these rules.
        """
        now = int(self._now[row])
        best: dict[int, tuple[int, float, tuple[_Option, ...]]] = {0: (0, 0.0, ())}
        for option in self._options:
            left, size = int(option.remaining[row]), float(option.size[row])
            cleared = now & ~left
            if not cleared or left & ~now or not np.isfinite(size):
                continue
            for met, (count, total, chosen) in list(best.items()):
                known = best.get(met | cleared)
                new = count + option.count, total + size
                if known is None or new < known[:2]:
                    best[met | cleared] = (*new, (*chosen, option))
        return best.get(now)

    # --- possible changes ---------------------------------------------------------------------------------------------

    def _all_options(self) -> Iterator[_Option]:
        query, flavor = with_resources(self._spec).query, self._spec.flavor
        pinned = query.fallback
        for name, amount in query.totals.items():
            if can_change(flavor, name) and not (pinned and name in _CPUS):
                yield from self._amounts(name, amount)
        if pinned:  # the numbers of PCPU and VCPU follow from the flavor's vcpus
            yield from self._lower_amounts("VCPU", flavor.vcpus)
        for name, amount in {**(pinned.totals if pinned else {}), **query.totals}.items():
            yield from self._freeing(name, amount)
        changes = (*request_changes(self._hosts, self._spec), *host_changes(self._hosts, self._spec))
        for each in changes:
            yield from self._option((each,))
        families: dict[str, list[Change]] = {}
        for change in changes:
            if change.new is None or change.family in {"service", "host traits"}:
                families.setdefault(change.family, []).append(change)
        for family, members in families.items():
            if family and len(members) > 1:
                yield from self._option(tuple(members))
        for column, fewer in (("num_instances", instances_change), ("num_io_ops", io_ops_change)):
            yield from self._taken_away(getattr(self._hosts, column), partial(self._with_less, column), fewer)

    def _option(self, changes: tuple[Change, ...]) -> Iterator[_Option]:
        remaining = self._after(changes)
        if remaining is None or not (self._now & ~remaining).any():
            return
        size = np.full(len(self._hosts), sum(change.size for change in changes))
        count = 1 if len(changes) == 1 else 2  # 2 is a lower bound, because _verify later drops superfluous changes
        yield _Option(remaining, size, count, lambda row: tuple(self._at(change, row) for change in changes))

    def _amounts(self, name: str, amount: int) -> Iterator[_Option]:
        """Yield changes of a requested amount: one to the nearest amount that Placement accepts, and lower amounts.

        Lower amounts are tried because rules other than Placement can limit the amount as well.
        """
        bit = self._bit_of.get(f"Placement: {name}", 0)
        nearest = _nearest_amount(self._hosts, name, amount)
        possible = ((self._now & bit) != 0) & (nearest >= _least(name))
        if possible.any():
            size = np.where(possible, np.abs(nearest - amount) / amount, np.inf)
            remaining = self._confirmed(name, amount, nearest, np.where(possible, self._now & ~bit, self._now), size)
            yield _Option(remaining, size, 1, lambda row: (amount_change(name, amount, int(nearest[row])),))
        yield from self._lower_amounts(name, amount, bit)

    def _confirmed(self, name: str, old: int, new: IntArray, assumed: IntArray, size: FloatArray) -> IntArray:
        """Return, for each host, the rules that still exclude it after the change of an amount.

        ``assumed``: the rules that probably remain. For the hosts with the smallest changes, the remaining rules are
        computed instead: all rules run for each of the smallest new amounts, until one amount suffices for a host.
        """
        remaining = assumed.copy()
        amounts = dict.fromkeys(
            int(new[row]) for row in np.lexsort((size, assumed != 0)).tolist() if np.isfinite(size[row])
        )
        for amount in list(amounts)[:_MOST_CONFIRMED]:
            left = self._asking(name, old, amount)
            rows = np.isfinite(size) & (new == amount)
            remaining[rows] = self._now[rows] if left is None else left[rows]
            if (remaining[rows] == 0).any():
                break
        return remaining

    def _lower_amounts(self, name: str, amount: int, bit: int = 0) -> Iterator[_Option]:
        """Yield the smallest reduction of an amount that satisfies all rules except the Placement rule of the amount.

        ``bit``: the bit of this Placement rule. The search is binary. One run of all rules tests one amount on all
        hosts, since all hosts get the same request. The next tested amount is the middle of one host's interval: the
        host that can keep the largest amount.
        """
        least = _least(name)
        lowest = self._asking(name, amount, least)
        if lowest is None:
            return
        goal = lowest & ~bit
        hindrances = _counts(goal)

        def given(limit: IntArray) -> IntArray:
            return _most_given(self._hosts, name, limit) if bit else limit

        # With a fallback query, rules other than "Placement: NAME" also reject an amount that does not fit.
        entangled = bool(bit) and with_resources(self._spec).query.fallback is not None
        helped = (self._now & ~goal & ~bit) != 0
        enough, too_much = np.full(len(goal), least), np.full(len(goal), amount)
        helped &= given(too_much - 1) >= least
        for _ in range(_MOST_WALKS):
            sure, hoped = given(enough), given(too_much - 1)
            alone = helped & (goal == 0) & (sure >= least)
            undecided = helped & (hoped > (sure[alone].max() if alone.any() else sure))
            undecided &= (hindrances == 0) | ~alone.any()
            if not undecided.any():
                break
            row = np.lexsort((-hoped, hindrances, ~undecided))[0]
            halved = given((enough + too_much) // 2)[row]
            middle = int(halved if halved > enough[row] else hoped[row])
            left = self._asking(name, amount, middle)
            if left is None:
                return
            fits = (left & ~bit) == goal
            told = (given(np.full(len(goal), middle)) == middle) if entangled else self._hosts.all_hosts
            enough = np.where(told & fits, np.maximum(enough, middle), enough)
            too_much = np.where(told & ~fits, np.minimum(too_much, middle), too_much)
        chosen = given(enough)
        helped &= chosen >= least
        if helped.any():
            yield _Option(
                np.where(helped, goal, self._now), np.where(helped, (amount - chosen) / amount, np.inf), 1,
                lambda row: (amount_change(name, amount, int(chosen[row])),),
            )  # fmt: skip

    def _freeing(self, name: str, amount: int) -> Iterator[_Option]:
        """Yield changes that free a resource on a host: as much as Placement needs, or as much as all rules need."""
        hosts, column = self._hosts, self._hosts.column(name)
        if column is None:
            return
        bit = self._bit_of.get(f"Placement: {name}", 0)
        used = hosts.used[:, column]
        short = used + amount - hosts.capacity[:, column]
        possible = ((self._now & bit) != 0) & (short > 0) & (short <= used) & within_units(hosts, column, amount)
        if possible.any():
            yield _Option(
                np.where(possible, self._now & ~bit, self._now), np.where(possible, short / amount, np.inf), 1,
                lambda row: (self._at(free_change(name, int(short[row]), amount), row),),
            )  # fmt: skip

        def without(less: IntArray) -> HostTable:
            left = hosts.used.copy(order="K")
            left[:, column] -= less
            return replace(hosts, used=left)

        yield from self._taken_away(used, without, lambda count: free_change(name, count, amount), amount, bit)

    def _taken_away(
        self,
        most: IntArray,
        without: Callable[[IntArray], HostTable],
        change: Callable[[int], Change],
        unit: int = 1,
        known: int = 0,
    ) -> Iterator[_Option]:
        """Yield, for each host, the smallest reduction of a count that satisfies the same rules as a reduction to 0.

        A count is, for example, used VCPU. The search is binary, and runs for all hosts at once.
        ``most``: the present count of each host, which is the largest reduction. ``without``: returns the host table
        after the given reductions. ``change``: returns the Change for a reduction. ``unit``: the reduction that has
        size 1. ``known``: bits of the rules that another suggested change covers; nothing is yielded if the reduction
        satisfies no other rules.
        """
        empty = self._rules_left(without(most), self._spec)
        if empty is None or not (self._now & ~empty & ~known).any():
            return
        few, enough = np.zeros_like(most), most.copy()
        while (wide := enough - few > 1).any():
            middle = np.where(wide, (few + enough) // 2, enough)
            left = self._rules_left(without(middle), self._spec)
            if left is None:
                return
            fits = left == empty
            enough, few = np.where(fits, middle, enough), np.where(fits, few, middle)
        yield _Option(
            empty,
            np.where(enough > 0, enough / unit, np.inf),
            1,
            lambda row: (self._at(change(int(enough[row])), row),),
        )

    def _at(self, change: Change, row: int) -> Change:
        return change.at(self._hosts.hosts[row], self._hosts.nodes[row])

    def _with_less(self, column: str, less: IntArray) -> HostTable:
        return replace(self._hosts, **{column: getattr(self._hosts, column) - less})

    def _asking(self, name: str, old: int, new: int) -> IntArray | None:
        return self._after((amount_change(name, old, new),))

    def _after(self, changes: Sequence[Change]) -> IntArray | None:
        """Apply the changes to all hosts. Return the rules that then exclude each host, or None if a rule fails."""
        hosts, spec = self._hosts, self._spec
        for change in changes:
            hosts, spec = change.apply(hosts, spec, self._hosts.all_hosts)
        return self._rules_left(hosts, spec)

    def _rules_left(self, hosts: HostTable, spec: RequestSpec) -> IntArray | None:
        try:
            return self._bits(explain(hosts, with_resources(spec), self._engine))
        except RuleFailed:
            return None

    def _bits(self, story: Explanation) -> IntArray:
        """Return the set of rules that exclude each host, as a bit mask. Shapes: → (H,)."""
        found = np.zeros(len(story.passed), dtype=np.int64)
        for verdict in story.verdicts:
            bit = self._bit_of.setdefault(verdict.rule, 1 << min(len(self._bit_of), _MOST_BITS))
            found[~verdict.passes] |= bit
        return found


def _counts(bits: IntArray) -> IntArray:
    """Return the number of set bits of each value. Shapes: (N,) → (N,)."""
    return np.array([each.bit_count() for each in bits.tolist()], dtype=np.int64)


def _least(name: str) -> int:
    return 1 if name in _NEEDED else 0


def _nearest_amount(hosts: HostTable, name: str, amount: int) -> IntArray:
    """Return, for each host, the amount nearest to ``amount`` that it can allocate; 0 if there is none. Shapes: → (H,).

    For resource classes that a server does not need, 0 can also be the nearest possible amount.
    """
    column = hosts.column(name)
    if column is None:
        return np.zeros(len(hosts), dtype=np.int64)
    less = _most_given(hosts, name, np.full(len(hosts), amount))
    step, least = hosts.step_size[:, column], hosts.min_unit[:, column]
    more = -(-np.maximum(amount, least) // step) * step
    more = np.where(more <= _room(hosts, column), more, 0)
    nearer = (more - amount < amount - less) | ((less == 0) & ((name in _NEEDED) | (more == 2 * amount)))
    return np.where((more > 0) & nearer, more, less)


def _most_given(hosts: HostTable, name: str, limit: IntArray) -> IntArray:
    """Return the largest amount up to ``limit`` that each host can allocate; 0 if none. Shapes: (H,) → (H,)."""
    column = hosts.column(name)
    if column is None:
        return np.zeros(len(hosts), dtype=np.int64)
    step, least = hosts.step_size[:, column], hosts.min_unit[:, column]
    most = np.minimum(_room(hosts, column), limit) // step * step
    return np.where(most >= np.maximum(least, 1), most, 0)


def _room(hosts: HostTable, column: int) -> IntArray:
    room: IntArray = np.minimum(hosts.capacity[:, column] - hosts.used[:, column], hosts.max_unit[:, column])
    return room


def _closest(hosts: HostTable, spec: RequestSpec, bits: IntArray) -> IntArray:
    """Return the rows of the hosts to examine.

    In a large cloud, these are the closest hosts of each set of hosts that fail the same rules; otherwise all hosts.
    """
    if len(hosts) <= _MOST_HOSTS:
        return np.arange(len(hosts))
    gap = _gap(hosts, spec.query)
    if spec.query.fallback is not None:
        gap = np.minimum(gap, _gap(hosts, spec.query.fallback))
    kinds, kind_of, sizes = np.unique(bits, return_inverse=True, return_counts=True)
    order = np.lexsort((gap, kind_of))
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    hindrances = _counts(kinds)
    chosen = [
        order[starts[kind] : starts[kind] + min(int(sizes[kind]), _OF_ONE_KIND)]
        for kind in np.argsort(hindrances, kind="stable")
    ]
    return np.sort(np.concatenate(chosen)[:_MOST_HOSTS])


def _gap(hosts: HostTable, query: ResourceQuery) -> FloatArray:
    """Return the distance of each host from a query. Shapes: → (H,).

    The distance is the sum over the requested resource classes: the difference between the requested amount and the
    nearest possible amount, divided by the requested amount.
    """
    gap = np.zeros(len(hosts))
    for name, amount in query.totals.items():
        gap += np.abs(_nearest_amount(hosts, name, amount) - amount) / max(amount, 1)
    return gap
