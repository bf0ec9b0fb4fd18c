# SPDX-License-Identifier: Apache-2.0
"""Detects that a service does not answer at all, so that not every request waits for its own time limit.

::

    answering ──a request times out, and none was answered meanwhile──▶ silent
        ▲                                                                 │ one request at a time is let through,
        └──────────────────────────any answer────────────────────────────┘ all others are refused at once
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kilonova.errors import Unavailable


class Silence:
    """Whether a service is silent. Thread-safe; nothing waits for its lock.

    ``least_s``: seconds that a request must have waited in vain before the service counts as silent.
    """

    def __init__(self, least_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._least_s = least_s
        self._clock = clock
        self._lock = threading.Lock()
        self._answered_at = clock()
        self._is_silent = False
        self._is_probed = False

    @contextmanager
    def request(self) -> Iterator[None]:
        """Context of one request. Raises: Unavailable if the service is silent and another request is being tried."""
        with self._lock:
            if self._is_silent and self._is_probed:
                raise Unavailable("The network service does not answer.")
            probes = self._is_silent
            self._is_probed = self._is_probed or probes
        try:
            yield
        finally:
            if probes:
                with self._lock:
                    self._is_probed = False

    def answered(self) -> None:
        """Note that the network service has answered, also with an error status."""
        with self._lock:
            self._answered_at = self._clock()
            self._is_silent = False

    def timed_out(self, since: float) -> None:
        """Note that a request got no answer. ``since``: clock time at which the request began."""
        with self._lock:
            if self._answered_at < since and self._clock() - since >= self._least_s:
                self._is_silent = True
