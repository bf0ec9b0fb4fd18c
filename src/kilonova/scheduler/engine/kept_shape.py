# SPDX-License-Identifier: Apache-2.0
"""The kept decision of one request shape: which rule removed each host, renewed for the hosts that changed.

::

    changed rows ──▶ the rules that depend on rows judge them ──▶ the first rule that removes each ──▶ counts, ranking
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.decision import SURVIVED, Decision, RankedHost, RuleCount
from kilonova.scheduler.depends_on import DependsOn, dependence_of
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.funnel import LaterFilter, LaterPlacement, LaterRoom
from kilonova.scheduler.engine.kept_ranking import KeptRanking
from kilonova.scheduler.engine.kept_ratings import NotKeepable, Ratings, SharedRatings, is_of_request
from kilonova.scheduler.host_table import BoolArray, HostTable, IntArray
from kilonova.scheduler.live_hosts import LiveHosts
from kilonova.scheduler.rule import rule_name

Numbers = NDArray[np.uint8]


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

    ``spec``: a request of this shape. ``listed``: number of the best hosts to list.
    ``shared``: the ratings that all shapes share; the caller keeps them up to date.
    ``_fixed``: for each host, the first of those rules that remove it and do not depend on rows; ``_removed_by`` counts
    all rules. Both are numbers of rules, or ``SURVIVED``. Shapes: (H,).
    Raises: NotKeepable, if the decision must be made in full; RuleFailed.
    """

    def __init__(
        self, engine: Engine, live: LiveHosts, now: float, spec: RequestSpec, shared: SharedRatings, listed: int
    ) -> None:
        self._engine = engine
        self._shared = shared
        self._listed = listed
        self._number = live.changes.number()
        hosts = live.at(now)
        self._from, self._until = now, _unchanged_until(engine, live, hosts)
        self._rules: list[tuple[str, str]] = []
        self._judges: list[_Judge] = []
        self._fixed, self._removed_by = self._judged(hosts, spec)
        self._is_handed_out = False
        self._removed = np.bincount(self._removed_by, minlength=SURVIVED + 1).tolist()
        self._steps: tuple[RuleCount, ...] | None = None
        self._own = [Ratings.of(each, hosts, spec) if is_of_request(each) else None for each in engine.weighers]
        self._ranking: KeptRanking | None = None

    def _judged(self, hosts: HostTable, spec: RequestSpec) -> tuple[Numbers, Numbers]:
        """Let all rules judge all hosts."""
        alive = fixed = hosts.all_hosts
        passed, passed_fixed = np.zeros(len(hosts), dtype=np.uint8), np.zeros(len(hosts), dtype=np.uint8)
        steps = self._engine.funnel(hosts, spec, lambda: alive)
        for number, step in enumerate(steps):
            if number == SURVIVED - 1 or isinstance(step.judge, LaterPlacement):
                raise NotKeepable
            self._rules.append((step.rule, step.reason))
            rule = _again(step.judge)
            if rule is not None:
                self._judges.append(_Judge(number, rule))
            if step.mask is not hosts.all_hosts:
                alive = alive & step.mask
                fixed = fixed & step.mask if rule is None else fixed
            passed += alive.view(np.uint8)
            passed_fixed += fixed.view(np.uint8)
        return passed_fixed | fixed * np.uint8(SURVIVED), passed | alive * np.uint8(SURVIVED)

    def is_valid_at(self, now: float) -> bool:
        """Tell whether the verdicts hold at a time, as far as only time passes."""
        return self._from <= now < self._until

    @property
    def size(self) -> int:
        """The approximate number of bytes in memory, without what other shapes share."""
        own = sum(each.raw.nbytes for each in self._own if each is not None)
        return own + 2 * self._fixed.nbytes + (self._ranking.size if self._ranking is not None else 0)

    def follow(self, live: LiveHosts, spec: RequestSpec) -> bool:
        """Judge the rows that changed. Return False if they are no longer known. Raises: NotKeepable, RuleFailed."""
        rows = live.changes.since(self._number)
        if rows is None:
            return False
        self._number = live.changes.number()
        if not len(rows):
            return True
        for ratings in self._own:
            if ratings is not None and ratings.follows:
                ratings.follow(live.hosts, spec, rows)
        now = self._fixed[rows]
        part = live.hosts.part(rows)
        for judge in reversed(self._judges):
            passed = judge.passes(live.hosts, part, rows, spec)
            if not passed.all():
                np.minimum(now, judge.number, out=now, where=~passed)
        self._change(rows, now.tolist())
        return True

    def _change(self, rows: IntArray, now: list[int]) -> None:
        """Set the rule that removes each of ``rows``."""
        before = self._removed_by[rows].tolist()
        if before != now:
            if self._is_handed_out:
                self._removed_by, self._is_handed_out = self._removed_by.copy(), False
            self._removed_by[rows] = now
            for old, new in zip(before, now, strict=True):
                self._removed[old] -= 1
                self._removed[new] += 1
            self._steps = None
        if self._ranking is not None:
            gone: list[int] = []
            back: list[int] = []
            same: list[int] = []
            for row, old, new in zip(rows.tolist(), before, now, strict=True):
                if new == SURVIVED:
                    (same if old == SURVIVED else back).append(row)
                elif old == SURVIVED:
                    gone.append(row)
            self._ranking.follow(gone, back, same)

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
            both = zip(self._own, self._shared.by_weigher, strict=True)
            ratings = [each for own, shared in both if (each := own or shared) is not None]
            self._ranking = KeptRanking(self._engine, ratings, self._remaining(), self._listed)
        return self._ranking.ranked(hosts, left, limit, rng, self._remaining)

    def _unrated(self, hosts: HostTable, limit: int, rng: np.random.Generator | None) -> tuple[RankedHost, ...]:
        """Return the only remaining host, for which weighers do not run."""
        (row,) = self._remaining().tolist()
        order = self._engine.order(np.zeros(1), 1, limit, rng)
        one = RankedHost(row, hosts.hosts[row], hosts.nodes[row], hosts.uuids[row], 0.0)
        return tuple(one for _ in order)

    def _remaining(self) -> IntArray:
        return np.flatnonzero(self._removed_by == SURVIVED)


def _again(judge: object) -> LaterRoom | LaterFilter | None:
    """Return the rule that judges changed rows again, or None if the verdict of a step does not depend on rows."""
    if judge is None or isinstance(judge, LaterRoom):
        return judge
    rule: Any = judge
    depends_on = dependence_of(rule)
    if depends_on is None:
        raise NotKeepable
    return LaterFilter(rule_name(rule), rule.reason, True, rule) if DependsOn.ROWS in depends_on else None


def _unchanged_until(engine: Engine, live: LiveHosts, hosts: HostTable) -> float:
    """Return the time until which the verdicts of all rules stay the same, if only time passes."""
    rules: Sequence[Any] = [each for each in engine.filters if DependsOn.TIME in (dependence_of(each) or DependsOn(0))]
    if not rules:
        return math.inf
    silent = replace(hosts, last_seen=live.last_seen(math.inf))
    return min(float(rule.unchanged_until(silent)) for rule in rules)
