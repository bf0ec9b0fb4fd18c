# SPDX-License-Identifier: Apache-2.0
"""A round-robin queue over senders, so that no sender's backlog delays the others."""

import threading
from collections import deque
from collections.abc import Callable


class FairTurns:
    """Queue of work of several senders, served round-robin. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Sender → its queued work. The first sender has the next turn.
        self._waiting: dict[str, deque[Callable[[], None]]] = {}

    def add(self, who: str, work: Callable[[], None]) -> None:
        """Queue work of sender ``who``. The caller then schedules one call of :meth:`run_next`."""
        with self._lock:
            self._waiting.setdefault(who, deque()).append(work)

    def run_next(self) -> None:
        """Run the oldest work of the sender whose turn it is."""
        with self._lock:
            who = next(iter(self._waiting))
            theirs = self._waiting.pop(who)
            work = theirs.popleft()
            if theirs:
                self._waiting[who] = theirs
        work()
