# SPDX-License-Identifier: Apache-2.0
"""Counts of the guests on the hosts of a forecast: those of the beginning, changed by each later server."""

import numpy as np
from numpy.typing import NDArray

from kilonova.records import dataclass
from kilonova.scheduler.guests import Counts, GuestCounts, GuestKind, GuestTally, SomeGuests


class CountedGuests:
    """The guests on at most ``most`` hosts. ``base``: the counts of the hosts that exist at the beginning."""

    def __init__(self, base: GuestCounts, most: int) -> None:
        self.base = base
        self.tally = GuestTally()
        self.rows = {row: row for row in range(most)}

    def change(self, row: int, kind: GuestKind, count: int) -> None:
        """Add ``count`` guests to a host; a negative ``count`` removes them."""
        self.tally.add(row, kind, count)

    def of(self, size: int) -> GuestCounts:
        """Return the counts of the first ``size`` hosts, which follow all changes."""
        return _FirstGuests(self, size)


@dataclass(frozen=True, slots=True)
class _FirstGuests:
    """The counts of the first ``size`` hosts."""

    counted: CountedGuests
    size: int

    def count(self, row: int, kind: GuestKind) -> None:
        self.counted.change(row, kind, 1)

    def take(self, rows: NDArray[np.int64]) -> GuestCounts:
        return SomeGuests(self, rows)

    def of_other_flavors(self, flavor_id: str) -> Counts:
        more = self.counted.tally.columns(self.counted.rows).of_other_flavors(flavor_id)
        return self._with(self.counted.base.of_other_flavors(flavor_id), more)

    def with_image_property(self, name: str, value: str) -> Counts:
        more = self.counted.tally.columns(self.counted.rows).with_image_property(name, value)
        return self._with(self.counted.base.with_image_property(name, value), more)

    def _with(self, base: Counts, more: Counts) -> Counts:
        found: Counts = more[: self.size].copy()
        found[: len(base)] += base
        return found
