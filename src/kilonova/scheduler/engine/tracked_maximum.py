# SPDX-License-Identifier: Apache-2.0
"""The largest of many values, some of which change: found again without reading the values that did not change."""

from collections.abc import Iterable, Sequence

import numpy as np

from kilonova.scheduler.engine.ranking import best
from kilonova.scheduler.host_table import FloatArray, IntArray

_FEW = 16


class TrackedMaximum:
    """The largest value of the rows of a column. It is negative infinity if there are no rows.

    ``most``: number of values to keep.
    ``_some``: row → value of some of the rows. No other row has a value above ``_bound``.
    ``value`` is None if it must be looked up, because a row with the largest value has changed.
    """

    __slots__ = ("_bound", "_most", "_some", "value")

    def __init__(self, values: FloatArray, rows: IntArray, most: int) -> None:
        self._most = most
        self._some: dict[int, float] = {}
        self._bound = -np.inf
        self.value: float | None = None
        if len(values):
            self._bound = self.value = float(values.max())
            places = np.flatnonzero(values == self._bound)[:most]
            self._some = dict.fromkeys(rows[places].tolist(), self._bound)

    def look(self) -> float | None:
        """Return the largest value, or None if :meth:`survey` must be called first."""
        if self.value is None and self._some:
            self.value = max(self._some.values())
        return self.value

    def survey(self, values: FloatArray, rows: IntArray) -> float:
        """Read all values and return the largest. Shapes: ``values``, ``rows`` (N,)."""
        if len(values) <= self._most:
            places = np.arange(len(values))
            self._bound = -np.inf
        else:
            places = best(values, self._most)
            self._bound = float(values[places[-1]])
        self._some = dict(zip(rows[places].tolist(), values[places].tolist(), strict=True))
        self.value = max(self._some.values(), default=-np.inf)
        return self.value

    def drop(self, rows: Iterable[int]) -> None:
        """Remove rows. Not an error if a row is absent."""
        some, value = self._some, self.value
        for row in rows:
            if row in some and some.pop(row) == value:
                self.value = value = None

    def put(self, rows: Sequence[int], values: FloatArray) -> None:
        """Set the values of rows, which may be new. Shapes: ``values`` (N,)."""
        if len(rows) > _FEW:  # most of them are neither known nor large
            self.drop(self._some.keys() & rows)
            large = np.flatnonzero(values >= self._bound).tolist()
            rows, values = [rows[place] for place in large], values[large]
        some, largest, bound = self._some, self.value, self._bound
        for row, value in zip(rows, values.tolist(), strict=True):
            if row in some:
                if some[row] == largest and value < largest:
                    largest = None
                if value < bound:
                    del some[row]
                    continue
                some[row] = value
            elif value >= bound:
                some[row] = value
            else:
                continue
            if largest is not None and value > largest:
                largest = value
        self.value = largest
