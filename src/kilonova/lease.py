# SPDX-License-Identifier: Apache-2.0
"""How long this process may act for its hosts without another sign of life."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta


def seconds_since_boot() -> float:
    """Return a time that goes on while the process is stopped or the machine asleep, and that nobody sets."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """Lapses ``duration`` after the last sign of life, as others see it too. Safe to use from any thread.

    It is not held before the first sign of life.
    """

    def __init__(self, duration: timedelta, *, clock: Callable[[], float] = seconds_since_boot) -> None:
        self.duration = duration
        self._clock = clock
        self._lock = threading.Lock()
        self._until = float("-inf")

    @property
    def is_held(self) -> bool:
        """Whether this process may act."""
        with self._lock:
            return self._clock() < self._until

    @property
    def renewal_s(self) -> float:
        """After how many seconds it is to be renewed, so that it takes several failures for it to lapse."""
        return self.duration.total_seconds() / 4

    def now(self) -> float:
        """Return the moment to be handed to :meth:`renew`, taken before the sign of life is written."""
        return self._clock()

    def renew(self, since: float, duration: timedelta | None = None) -> None:
        """Note a sign of life that others have seen since then at the latest. ``duration``: what others say it is."""
        with self._lock:
            self.duration = duration or self.duration
            self._until = since + self.duration.total_seconds()

    def lapse(self) -> None:
        """Note that others count this process as dead."""
        with self._lock:
            self._until = float("-inf")
