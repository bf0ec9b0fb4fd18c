# SPDX-License-Identifier: Apache-2.0
"""The lease of a process: how long it may act for its hosts without a further heartbeat."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta


def seconds_since_boot() -> float:
    """Return a monotonic time that also advances while the process is stopped or the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """A lease that, like its record in the database, expires ``duration`` after the last heartbeat. Thread-safe.

    The lease is not held before the first heartbeat.
    """

    def __init__(self, duration: timedelta, *, clock: Callable[[], float] = seconds_since_boot) -> None:
        self.duration = duration
        self._clock = clock
        self._lock = threading.Lock()
        self._until = float("-inf")

    @property
    def is_held(self) -> bool:
        """Whether the lease is valid, so that this process may act."""
        with self._lock:
            return self._clock() < self._until

    @property
    def renewal_s(self) -> float:
        """Interval of renewals in seconds: a quarter of the duration, so that the lease outlasts a failed renewal."""
        return self.duration.total_seconds() / 4

    def now(self) -> float:
        """Return the time to pass to :meth:`renew`; call it before the heartbeat is written."""
        return self._clock()

    def renew(self, since: float, duration: timedelta | None = None) -> None:
        """Extend the lease after a successful heartbeat.

        ``since``: the result of :meth:`now` before the heartbeat was sent.
        ``duration``: new duration of the lease, from the reply to the heartbeat; None keeps the old duration.
        """
        with self._lock:
            self.duration = duration or self.duration
            self._until = since + self.duration.total_seconds()

    def lapse(self) -> None:
        """End the lease, because other processes have declared this process dead."""
        with self._lock:
            self._until = float("-inf")
