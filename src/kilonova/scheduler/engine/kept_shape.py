# SPDX-License-Identifier: Apache-2.0
"""The kept decision of one request shape: which rule removed each host, renewed for the hosts that changed.

::

    changed rows ──▶ the rules that depend on rows judge them ──▶ the first rule that removes each ──▶ counts, ranking
"""

from typing import Any, NamedTuple

import numpy as np

from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.decision import SURVIVED, Decision, RankedHost, RuleCount
from kilonova.scheduler.depends_on import DependsOn, dependence_of
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.funnel import LaterFilter, LaterPlacement, LaterRoom
from kilonova.scheduler.engine.kept_ranking import KeptRanking, Numbers
from kilonova.scheduler.engine.kept_ratings import NotKeepable, Ratings, SharedRatings, has_same_factors
from kilonova.scheduler.engine.period import Period
from kilonova.scheduler.host_table import BoolArray, HostTable, IntArray
from kilonova.scheduler.rule import rule_name


class _Judge(NamedTuple):
    """A rule that judges changed rows again. ``number``: its place among the rules."""

    number: int
    rule: LaterRoom | LaterFilter

    def passes(self, live: HostTable, part: HostTable, rows: IntArray, spec: RequestSpec) -> BoolArray:
        """Return which of ``rows`` pass. ``part``: the table of these rows. Raises: RuleFailed."""
        if isinstance(self.rule, LaterRoom):
            return self.rule.passes_at(live, rows)
        return self.rule.passes(part, spec, part.all_hosts)


class KeptShape:
    """The verdicts on all hosts for one request shape, and their ranking.

    ``spec``: a request of this shape. ``period``: the present period; the verdicts hold until its end.
    ``stage``: number of the touches that the verdicts include.
    ``listed``: number of the best hosts to list.
    ``shared``: the ratings that all shapes share; the caller keeps them up to date.
    ``_fixed``: for each host, the first of those rules that remove it and do not depend on rows; ``_removed_by`` counts
    all rules. Both are numbers of rules, or ``SURVIVED``. Shapes: (H,).
    Raises: NotKeepable, if the decision must be made in full; RuleFailed.
    """

    def __init__(
        self, engine: Engine, period: Period, stage: int, spec: RequestSpec, shared: SharedRatings, listed: int
    ) -> None:
        self._engine = engine
        self._shared = shared
        self._listed = listed
        self._number = period.live.changes.number()
        self.stage, hosts = stage, period.hosts
        self._aggregates = hosts.aggregates
        self._rules: list[tuple[str, str]] = []
        self._judges: list[_Judge] = []
        #: For each rule, how many hosts it removes; at ``SURVIVED``, how many hosts pass all rules.
        self._removed = [0] * (SURVIVED + 1)
        self._judge(hosts, spec)
        self._is_handed_out = False
        self._steps: tuple[RuleCount, ...] | None = None
        self._own = {place: Ratings.of(each, hosts, spec) for place, each in shared.of_request}
        self._ranking: KeptRanking | None = None

    def _judge(self, hosts: HostTable, spec: RequestSpec) -> None:
        """Let all rules judge all hosts."""
        fixed = np.full(len(hosts), SURVIVED, dtype=np.uint8)
        renewed = fixed.copy()
        rejecting = [SURVIVED]
        for number, step in enumerate(self._engine.funnel(hosts, spec, lambda: np.minimum(fixed, renewed) == SURVIVED)):
            if number == SURVIVED - 1 or isinstance(step.judge, LaterPlacement):
                raise NotKeepable
            self._rules.append((step.rule, step.reason))
            rule = _again(step.judge)
            if rule is not None:
                self._judges.append(_Judge(number, rule))
            if step.mask is not hosts.all_hosts and not step.mask.all():
                rejecting.append(number)
                first = fixed if rule is None else renewed
                np.minimum(first, _numbers(step.mask, number), out=first)
        self._fixed, self._removed_by = fixed, np.minimum(fixed, renewed, out=renewed)
        for number in rejecting:
            self._removed[number] = int(np.count_nonzero(self._removed_by == number))

    @property
    def size(self) -> int:
        """The approximate number of bytes in memory, without what other shapes share."""
        own = sum(each.raw.nbytes for each in self._own.values() if each is not None)
        return own + 2 * self._fixed.nbytes + (self._ranking.size if self._ranking is not None else 0)

    def follow(self, period: Period, spec: RequestSpec, touched: IntArray | None, stage: int) -> bool:
        """Judge the rows that changed. Return False if all hosts must be judged. Raises: NotKeepable, RuleFailed.

        ``touched``: the rows that all rules must judge again, at least one; None if the stage has not changed.
        """
        live = period.live
        rows = live.changes.since(self._number)
        if rows is None:
            return False
        self._number = live.changes.number()
        if touched is not None:
            rows = np.union1d(rows, touched)
            now = self._judge_again(period.hosts, spec, rows)
            if now is None:
                return False
            self.stage = stage
        elif not len(rows):
            return True
        else:
            now = self._judge_changed(live.hosts, spec, rows)
        for ratings in self._own.values():
            if ratings is not None and (ratings.follows or touched is not None):
                ratings.follow(live.hosts, spec, rows)
        self._change(rows, now, is_rated=touched is not None)
        return True

    def _judge_changed(self, live: HostTable, spec: RequestSpec, rows: IntArray) -> Numbers:
        """Let the rules that depend on rows judge some rows. Return the rule that removes each. Shapes: → (N,)."""
        now = self._fixed[rows]
        part = live.part(rows)
        for judge in reversed(self._judges):
            passed = judge.passes(live, part, rows, spec)
            if 0 in passed.tobytes():  # faster than all() for few rows
                np.minimum(now, judge.number, out=now, where=~passed)
        return now

    def _judge_again(self, hosts: HostTable, spec: RequestSpec, rows: IntArray) -> Numbers | None:
        """Let all rules judge some rows. Return the rule that removes each; None if all hosts must be judged.

        Shapes: → (N,).
        """
        if not self._engine.has_same_conditions(self._aggregates, hosts.aggregates, spec) or not all(
            has_same_factors(self._engine.weighers[place], ratings, hosts) for place, ratings in self._own.items()
        ):
            return None
        self._aggregates = hosts.aggregates
        part = hosts.part(rows)
        fixed = np.full(len(rows), SURVIVED, dtype=np.uint8)
        renewed = fixed.copy()
        rules: list[tuple[str, str]] = []
        for number, step in enumerate(self._engine.funnel(part, spec, lambda: part.all_hosts)):
            rules.append((step.rule, step.reason))
            first = fixed if _again(step.judge) is None else renewed
            if 0 in step.mask.tobytes():
                np.minimum(first, number, out=first, where=~step.mask)
        self._fixed[rows] = fixed
        return np.minimum(fixed, renewed, out=renewed) if rules == self._rules else None

    def _change(self, rows: IntArray, now: Numbers, *, is_rated: bool) -> None:
        """Set the rule that removes each of ``rows``. Shapes: (N,)."""
        before = self._removed_by.take(rows)
        if before.tobytes() != now.tobytes():
            places = np.flatnonzero(before != now).tolist()
            if self._is_handed_out:
                self._removed_by, self._is_handed_out = self._removed_by.copy(), False
            self._removed_by[rows] = now
            for place in places:
                self._removed[before[place]] -= 1
                self._removed[now[place]] += 1
            self._steps = None
        if self._ranking is not None:
            self._ranking.follow(rows, before, now, is_rated=is_rated)

    def decision(self, hosts: HostTable, limit: int, rng: np.random.Generator | None) -> Decision:
        """Return the decision. Raises: NotKeepable, RuleFailed."""
        left = self._removed[SURVIVED]
        if self._steps is None:
            self._steps = self._counted(len(hosts))
        ranked = self._ranked(hosts, left, limit, rng)
        self._is_handed_out = True
        return Decision(ranked, self._steps, self._removed_by, left)

    def _counted(self, left: int) -> tuple[RuleCount, ...]:
        counts: list[RuleCount] = []
        for (rule, reason), removed in zip(self._rules, self._removed, strict=False):
            counts.append(RuleCount(rule, reason, left, left - removed))
            left -= removed
            if not left:
                break
        return tuple(counts)

    def _ranked(
        self, hosts: HostTable, left: int, limit: int, rng: np.random.Generator | None
    ) -> tuple[RankedHost, ...]:
        if left < 2:
            self._ranking = None
            return self._unrated(hosts, limit, rng) if left else ()
        if self._ranking is None:
            both = [self._own.get(place, shared) for place, shared in enumerate(self._shared.by_weigher)]
            ratings = [each for each in both if each is not None]
            needed = max(limit, self._engine.host_subset_size)
            self._ranking = KeptRanking(self._engine, ratings, self._shared, self._removed_by, self._listed, needed)
        return self._ranking.ranked(hosts, left, limit, rng, self._removed_by)

    def _unrated(self, hosts: HostTable, limit: int, rng: np.random.Generator | None) -> tuple[RankedHost, ...]:
        """Return the only remaining host, for which weighers do not run."""
        (row,) = np.flatnonzero(self._removed_by == SURVIVED).tolist()
        order = self._engine.order(np.zeros(1), 1, limit, rng)
        one = RankedHost(row, hosts.hosts[row], hosts.nodes[row], hosts.uuids[row], 0.0)
        return tuple(one for _ in order)


def _numbers(mask: BoolArray, number: int) -> Numbers:
    """Return ``SURVIVED`` for the hosts that pass a rule, and its number for the others. Shapes: (H,) → (H,)."""
    numbers: Numbers = np.negative(mask.view(np.uint8))
    return np.bitwise_or(numbers, np.uint8(number), out=numbers)


def _again(judge: object) -> LaterRoom | LaterFilter | None:
    """Return the rule that judges changed rows again, or None if the verdict of a step does not depend on rows."""
    if judge is None or isinstance(judge, LaterRoom):
        return judge
    rule: Any = judge
    depends_on = dependence_of(rule)
    if depends_on is None:
        raise NotKeepable
    return LaterFilter(rule_name(rule), rule.reason, True, rule) if DependsOn.ROWS in depends_on else None
