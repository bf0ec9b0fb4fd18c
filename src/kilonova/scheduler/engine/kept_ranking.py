# SPDX-License-Identifier: Apache-2.0
"""The kept ranking of one request shape: a short list of the best hosts, with a bound for the scores of all others.

::

    changed rows ──▶ the ends of each weigher's scale ──▶ rise of the bound ──┐
                 └─▶ the short list ──▶ scores of the short list ─────────────┴▶ enough above the bound? ──▶ best
                                                                                    └ no: score all hosts, new list

A score depends on the host's own ratings and on the ends of each weigher's scale. When an end moves, every score
changes, but by no more than a number that follows from the two scales. The scores of the hosts outside the short list
stay below the bound plus these numbers, so they need not be known.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kilonova.scheduler.decision import RankedHost
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.kept_ratings import NotKeepable, Ratings
from kilonova.scheduler.engine.ranking import Scale, best, scale
from kilonova.scheduler.engine.tracked_maximum import TrackedMaximum
from kilonova.scheduler.host_table import FloatArray, HostTable, IntArray
from kilonova.scheduler.rule import rule_name

LISTED = 128
"""Number of the best hosts that a ranking lists. Changed hosts are added, until the list is four times as long."""
_FEW = 16
#: The relative error of a score is far below this number.
_ROUNDING = 1e-12
Remaining = Callable[[], IntArray]
"""Function that returns the rows that passed all rules, in ascending order."""


@dataclass(slots=True)
class Part:
    """The part of one weigher in the scores.

    ``high``, ``low``: the ends of its ratings; None if the weigher fixes the end. ``low`` holds negated ratings.
    """

    ratings: Ratings
    high: TrackedMaximum | None
    low: TrackedMaximum | None
    scale: Scale | None = None

    @classmethod
    def of(cls, ratings: Ratings, rows: IntArray, most: int) -> "Part":
        """Return the part for the remaining ``rows``. ``most``: number of ratings to keep at each end."""
        weigher, values = ratings.weigher, ratings.raw[rows]
        high = TrackedMaximum(values, rows, most) if weigher.maximum is None else None
        low = TrackedMaximum(-values, rows, most) if weigher.minimum is None else None
        return cls(ratings, high, low)

    def drop(self, rows: Sequence[int]) -> None:
        """Remove rows that no longer pass all rules."""
        for end in (self.high, self.low):
            if end is not None:
                end.drop(rows)

    def put(self, rows: Sequence[int]) -> None:
        """Read the ratings of remaining rows again."""
        values = self.ratings.raw.take(rows)
        if self.high is not None:
            self.high.put(rows, values)
        if self.low is not None:
            self.low.put(rows, -values)

    def rescale(self, remaining: Remaining) -> float:
        """Compute the scale again. Return how far the score of a host can rise whose ratings have not changed."""
        weigher = self.ratings.weigher
        low = -self._end(self.low, remaining, -1) if weigher.minimum is None else weigher.minimum
        high = self._end(self.high, remaining, 1) if weigher.maximum is None else weigher.maximum
        before = self.scale
        if before is not None and before.low == low and before.high == high:
            return 0.0
        self.scale = scale(low, high, weigher.minimum, weigher.maximum)
        return 0.0 if before == self.scale else _rise(before, self.scale, self.ratings)

    def _end(self, end: TrackedMaximum | None, remaining: Remaining, sign: int) -> float:
        assert end is not None
        found = end.look()
        if found is None:
            rows = remaining()
            found = end.survey(sign * self.ratings.raw[rows], rows)
        return found

    def share(self, rows: IntArray) -> FloatArray | None:
        """Return the contribution to the scores of ``rows``, or None if it is 0. Shapes: → (N,)."""
        ends, ratings = self.scale, self.ratings
        if ends is None:
            return None
        raw, weigher, factors = ratings.raw.take(rows), ratings.weigher, ratings.factors
        if weigher.minimum is not None:
            np.maximum(raw, weigher.minimum, out=raw)
        if weigher.maximum is not None:
            np.minimum(raw, weigher.maximum, out=raw)
        scaled = ends.applied(raw)
        if isinstance(factors, float | int):
            return scaled if factors == 1 else np.multiply(scaled, factors, out=scaled)
        return np.multiply(scaled, factors.take(rows), out=scaled)


def _rise(before: Scale | None, after: Scale | None, ratings: Ratings) -> float:
    """Return how far a change of the scale can raise the score of a host whose rating is within both scales.

    0 is exact: no computed score rises at all. The difference of two scales is linear between their ends.
    """

    def scaled(ends: Scale | None, raw: float) -> float:
        return 0.0 if ends is None else (min(max(raw, ends.low), ends.high) - ends.low) / (ends.high - ends.low)

    points = [end for ends in (before, after) if ends is not None for end in (ends.low, ends.high)]
    changes = [scaled(after, point) - scaled(before, point) for point in points]
    rise = max(change * factor for change in changes for factor in (ratings.least, ratings.most))
    if rise <= 0 and (before is None or after is None or before.low == after.low):
        return 0.0  # each computed quotient moves in the same direction
    return max(rise, 0.0) + _ROUNDING * max(abs(ratings.least), abs(ratings.most))


class KeptRanking:
    """The ranking of the hosts that passed all rules.

    ``rows``: these hosts, at least two. ``count``: number of the best hosts to list.
    """

    def __init__(self, engine: Engine, ratings: Sequence[Ratings], rows: IntArray, count: int) -> None:
        self._engine = engine
        self._names = [rule_name(weigher) for weigher in engine.weighers]
        self._parts = [Part.of(each, rows, count) for each in ratings if not each.is_silent]
        self._count = count
        self._listed: list[int] = []
        #: The listed rows as an array; None after a change of the list.
        self._rows: IntArray | None = None
        #: Score and row: each host that is not listed has a lower score, or the same score and a larger row.
        self._bound = np.inf, -1

    def follow(self, gone: Sequence[int], back: Sequence[int], same: Sequence[int]) -> None:
        """Take changes into account.

        ``gone``: rows that no longer pass all rules. ``back``: rows that pass them now. ``same``: further changed rows
        that still pass them.
        """
        for part in self._parts:
            if gone:
                part.drop(gone)
            if part.ratings.follows and same:
                part.put(same)
            if back:
                part.put(back)
        listed = self._listed
        for row in gone:
            at = bisect_left(listed, row)
            if at < len(listed) and listed[at] == row:
                del listed[at]
                self._rows = None
        if len(back) + len(same) > _FEW:
            self._listed, self._rows = sorted({*listed, *back, *same}), None
            return
        for row in (*back, *same):
            at = bisect_left(listed, row)
            if at == len(listed) or listed[at] != row:
                listed.insert(at, row)
                self._rows = None

    def ranked(
        self, hosts: HostTable, left: int, limit: int, rng: np.random.Generator | None, remaining: Remaining
    ) -> tuple[RankedHost, ...]:
        """Return the best ``limit`` hosts. ``left``: number of remaining hosts.

        Raises: NotKeepable, if a score is not finite. RuleFailed.
        """
        rise = 0.0
        for part in self._parts:
            rise += part.rescale(remaining)
        if rise:
            largest = sum(max(abs(part.ratings.least), abs(part.ratings.most)) for part in self._parts)
            self._bound = self._bound[0] + rise + _ROUNDING * largest, -1
        needed = min(max(limit, self._engine.host_subset_size), left)
        rows = self._rows
        if rows is None:
            rows = self._rows = np.array(self._listed, dtype=np.int64)
        scores, shares = self._scored(rows)
        order = best(scores, min(needed, len(rows)))
        is_listed = self._is_enough(rows, scores, order, needed)
        if not is_listed:
            rows, scores, shares = self._list(remaining(), max(self._count, 2 * needed))
        elif len(rows) > 4 * max(self._count, needed):
            self._shorten(rows, scores, max(self._count, 2 * needed))
        if not is_listed or rng is not None or needed != min(limit, left):
            order = self._engine.order(scores, left, limit, rng)
        return self._hosts(hosts, rows[order].tolist(), scores[order].tolist(), shares, order)

    def _scored(self, rows: IntArray) -> tuple[FloatArray, list[FloatArray | None]]:
        """Return the scores of ``rows``, and the contribution of each part."""
        shares = [part.share(rows) for part in self._parts]
        scores = np.zeros(len(rows))
        for share in shares:  # in the order of the weighers, as the whole engine
            if share is not None:
                scores += share
        return scores, shares

    def _is_enough(self, rows: IntArray, scores: FloatArray, order: IntArray, needed: int) -> bool:
        if len(order) < needed:
            return False
        worst = int(order[-1])
        score, row = self._bound
        return bool(scores[worst] > score or (scores[worst] == score and rows[worst] <= row))

    def _list(self, rows: IntArray, count: int) -> tuple[IntArray, FloatArray, list[FloatArray | None]]:
        """Score all remaining hosts and list the best ``count``. Return the list with its scores."""
        scores, _ = self._scored(rows)
        if not np.isfinite(scores).all():
            raise NotKeepable
        self._bound = -np.inf, -1
        listed = self._shorten(rows, scores, count)
        return listed, *self._scored(listed)

    def _shorten(self, rows: IntArray, scores: FloatArray, count: int) -> IntArray:
        """List the best ``count`` of ``rows``, and raise the bound to the worst of them if there are more."""
        order = best(scores, min(count, len(rows)))
        self._rows = listed = np.sort(rows[order])
        self._listed = listed.tolist()
        if len(rows) > count:
            worst = int(order[-1])
            score, row = float(scores[worst]), int(rows[worst])
            if score > self._bound[0] or (score == self._bound[0] and row < self._bound[1]):
                self._bound = score, row
        return listed

    def _hosts(
        self, hosts: HostTable, rows: list[int], scores: list[float], shares: list[FloatArray | None], order: IntArray
    ) -> tuple[RankedHost, ...]:
        zeros = [0.0] * len(rows)
        parts = zip(self._parts, shares, strict=True)
        known = {part.ratings.name: share[order].tolist() for part, share in parts if share is not None}
        weights = (
            zip(*[known.get(name, zeros) for name in self._names], strict=True) if self._names else [()] * len(rows)
        )
        names = self._names
        return tuple(
            RankedHost(
                row, hosts.hosts[row], hosts.nodes[row], hosts.uuids[row], score, dict(zip(names, each, strict=True))
            )
            for row, score, each in zip(rows, scores, weights, strict=True)
        )

    @property
    def size(self) -> int:
        """The approximate number of bytes in memory."""
        return 128 * (len(self._listed) + 2 * self._count * len(self._parts))
