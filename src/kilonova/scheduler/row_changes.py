# SPDX-License-Identifier: Apache-2.0
"""Log of the rows of a host table that changed, by which readers find the rows that they must read again."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
_CAPACITY = 4096


class RowChanges:
    """A ring of the changed rows. ``rows``: number of rows of the table. The owner of the table guards it by a lock.

    Each change has a number. A row that changes several times between two reads is logged once.
    """

    def __init__(self, rows: int, capacity: int = _CAPACITY) -> None:
        self._ring: Rows = np.zeros(capacity, dtype=np.int64)
        #: For each row, the number of its newest change.
        self._newest: Rows = np.full(rows, -1, dtype=np.int64)
        # Memoryviews: access to a single element takes half the time of array access.
        self._ring_item, self._newest_item = self._ring.data, self._newest.data
        self._next = 0
        self._read = 0

    def mark(self, row: int) -> None:
        """Log a change of one row."""
        newest = self._newest_item
        if newest[row] < self._read:
            self._ring_item[self._next % len(self._ring)] = row
            newest[row] = self._next
            self._next += 1

    def number(self) -> int:
        """Return the number of the next change: :meth:`since` with this number returns all later changes."""
        self._read = self._next
        return self._next

    def since(self, number: int) -> Rows | None:
        """Return the rows that changed since ``number``, in ascending order; None if the ring has lost some of them."""
        end = self.number()
        count = end - number
        if count > len(self._ring):
            return None
        if count == 1:
            at = number % len(self._ring)
            return self._ring[at : at + 1].copy()
        numbers = np.arange(number, end)
        rows = self._ring[numbers % len(self._ring)]
        newest: Rows = np.sort(rows[self._newest[rows] == numbers])  # each row at its newest change only
        return newest


LastSeen = Callable[[float], NDArray[np.float64]]
"""Function that returns the column ``last_seen`` at a time, in epoch seconds."""
