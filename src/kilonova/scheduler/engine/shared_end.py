# SPDX-License-Identifier: Apache-2.0
"""One end of a weigher's ratings: the hosts with the largest ratings, or with the smallest, for all request shapes.

The largest rating of the hosts that pass the rules of a shape is that of the first listed host that passes them.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence

from kilonova.scheduler.decision import SURVIVED
from kilonova.scheduler.engine.ranking import best
from kilonova.scheduler.host_table import FloatArray


class SharedEnd:
    """The hosts with the largest ratings, in order. With ``sign`` -1, the ratings are negated.

    ``most``: number of hosts to list.
    ``_sorted``: negated ratings with their rows. No other row has a rating above ``_bound``.
    Shapes: ``raw`` (H,), which the caller changes before it calls :meth:`put`.
    """

    __slots__ = ("_bound", "_most", "_raw", "_sign", "_sorted", "_value_of")

    def __init__(self, raw: FloatArray, sign: int, most: int) -> None:
        self._raw = raw
        self._sign = sign
        self._most = most
        self._survey()

    def _survey(self) -> None:
        """List the hosts with the largest of all ratings."""
        values = self._raw if self._sign > 0 else -self._raw
        rows = best(values, min(self._most, len(values)))
        found = values[rows].tolist()
        self._value_of: dict[int, float] = dict(zip(rows.tolist(), found, strict=True))
        self._sorted: list[tuple[float, int]] = [(-value, row) for row, value in self._value_of.items()]
        self._bound = float("-inf") if len(rows) == len(values) else found[-1]

    def put(self, rows: Sequence[int], values: Sequence[float]) -> None:
        """Take new ratings of some rows into account. Shapes: ``values`` (N,)."""
        known, ordered, bound, sign = self._value_of, self._sorted, self._bound, self._sign
        for row, raw in zip(rows, values, strict=True):
            value = sign * raw
            before = known.get(row)
            if before is not None:
                if before == value:
                    continue
                del ordered[bisect_left(ordered, (-before, row))]
                del known[row]
            if value >= bound:
                insort(ordered, (-value, row))
                known[row] = value
        if len(ordered) > 4 * self._most:
            self._cut()

    def _cut(self) -> None:
        for _, row in self._sorted[self._most :]:
            del self._value_of[row]
        del self._sorted[self._most :]
        self._bound = max(self._bound, -self._sorted[-1][0])

    def largest(self, removed_by: memoryview) -> float | None:
        """Return the largest rating of the hosts that pass all rules, or None if no such host is listed.

        ``removed_by``: the rule that removes each host. Shapes: (H,).
        """
        for negated, row in self._sorted:
            if removed_by[row] == SURVIVED:
                return -negated
        if len(self._sorted) >= self._most // 2 or self._bound == float("-inf"):
            return None
        self._survey()
        return self.largest(removed_by) if len(self._sorted) >= self._most // 2 else None
