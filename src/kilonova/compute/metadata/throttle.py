# SPDX-License-Identifier: Apache-2.0
"""Limit of how often each of many clients may do something, with bounded memory."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

_MOST = 10_000


class Throttle:
    """Admits ``per_s`` requests of each client per second on average, and up to ``burst`` at once.

    Only the ``most`` latest clients are remembered. ``now``: returns the time in seconds.
    """

    def __init__(
        self, per_s: float, burst: int, *, most: int = _MOST, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s, self._burst, self._most, self._now = per_s, float(burst), most, now
        #: Client → requests that it may still make, and the time of that count; least recent first.
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def admits(self, client: Hashable) -> bool:
        """Count a request, and return whether it is within the limit."""
        with self._lock:
            now = self._now()
            left, since = self._left.pop(client, (self._burst, now))
            left = min(self._burst, left + (now - since) * self._per_s)
            is_admitted = left >= 1.0
            self._left[client] = (left - 1.0 if is_admitted else left, now)
            if len(self._left) > self._most:
                self._left.popitem(last=False)
            return is_admitted
