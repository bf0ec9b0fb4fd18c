# SPDX-License-Identifier: Apache-2.0
"""The part of one weigher in the scores of one request shape: its ratings, and the scale between their ends."""

from collections.abc import Callable

import numpy as np

from kilonova.scheduler.engine.kept_ratings import Ratings
from kilonova.scheduler.engine.ranking import Scale, scale
from kilonova.scheduler.engine.shared_end import SharedEnd
from kilonova.scheduler.engine.tracked_maximum import TrackedMaximum
from kilonova.scheduler.host_table import BoolArray, IntArray

#: The relative error of a score is far below this number.
ROUNDING = 1e-12
Remaining = Callable[[], IntArray]
"""Function that returns the rows that passed all rules, in ascending order."""


class _End:
    """The largest rating, times ``sign``, of the hosts that pass all rules of the shape.

    ``shared``: the hosts with the largest ratings for all shapes. ``own``: those for this shape, if no host in
    ``shared`` passes its rules. ``most``: number of ratings in it.
    """

    __slots__ = ("_most", "_ratings", "_shared", "_sign", "own")

    def __init__(self, ratings: Ratings, shared: SharedEnd | None, sign: int, most: int) -> None:
        self._ratings = ratings
        self._shared = shared
        self._sign = sign
        self._most = most
        self.own: TrackedMaximum | None = None

    def value(self, removed_by: memoryview, remaining: Remaining) -> float:
        if self.own is None:
            found = None if self._shared is None else self._shared.largest(removed_by)
            if found is not None:
                return found
            rows = remaining()
            self.own = TrackedMaximum(self._sign * self._ratings.raw.take(rows), rows, self._most)
        found = self.own.look()
        if found is None:
            rows = remaining()
            found = self.own.survey(self._sign * self._ratings.raw.take(rows), rows)
        return found

    def follow(self, rows: IntArray, was: BoolArray, stays: BoolArray, is_rated: bool) -> None:
        if self.own is None:
            return
        self.own.drop(rows[was & ~stays].tolist())
        now = rows[stays if is_rated or self._ratings.follows else stays & ~was]
        if len(now):
            self.own.put(now.tolist(), self._sign * self._ratings.raw.take(now))


class Part:
    """The part of one weigher in the scores. ``most``: number of ratings to keep at each end of its own."""

    def __init__(self, ratings: Ratings, most: int) -> None:
        self.ratings = ratings
        self.scale: Scale | None = None
        weigher = ratings.weigher
        self._high = _End(ratings, ratings.high, 1, most) if weigher.maximum is None else None
        self._low = _End(ratings, ratings.low, -1, most) if weigher.minimum is None else None
        self._ends = [end for end in (self._high, self._low) if end is not None]

    def follow(self, rows: IntArray, was: BoolArray, stays: BoolArray, *, is_rated: bool) -> None:
        """Take changed rows into account.

        ``was``, ``stays``: which of them passed all rules before, and do so now. ``is_rated``: whether even ratings
        that do not depend on rows may have changed. Shapes: (N,).
        """
        for end in self._ends:
            end.follow(rows, was, stays, is_rated)

    def rescale(self, removed_by: memoryview, remaining: Remaining, *, is_bounded: bool) -> float:
        """Compute the scale again. Return how far the score of a host can rise whose ratings have not changed.

        ``removed_by``: the rule that removes each host. ``is_bounded``: False if the result is not used. Shapes: (H,).
        """
        weigher = self.ratings.weigher
        low = weigher.minimum if self._low is None else -self._low.value(removed_by, remaining)
        high = weigher.maximum if self._high is None else self._high.value(removed_by, remaining)
        assert low is not None
        assert high is not None
        before = self.scale
        if before is not None and before.low == low and before.high == high:
            return 0.0
        self.scale = scale(low, high, weigher.minimum, weigher.maximum)
        return 0.0 if before == self.scale or not is_bounded else _rise(before, self.scale, self.ratings)

    @property
    def linear(self) -> tuple[float, float, float]:
        """The low end of the scale, its span, and the multiplier, 1 if each host has its own."""
        assert self.scale is not None
        factors = self.ratings.factors
        factor = 1.0 if isinstance(factors, np.ndarray) else float(factors)
        return self.scale.low, self.scale.high - self.scale.low, factor

    @property
    def own_ends(self) -> int:
        """The number of ends that no other shape shares."""
        return sum(end.own is not None for end in self._ends)


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
    return max(rise, 0.0) + ROUNDING * ratings.largest_factor
