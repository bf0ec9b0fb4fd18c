# SPDX-License-Identifier: Apache-2.0
"""Work of many, in turn: however much one brings, the others wait for one piece of it at most."""

import threading
from collections import deque
from collections.abc import Callable


class FairTurns:
    """Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Who has work that waits → that work. Whose turn is next is first.
        self._waiting: dict[str, deque[Callable[[], None]]] = {}

    def add(self, who: str, work: Callable[[], None]) -> None:
        """Note a piece of work. Have :meth:`run_next` called once for each."""
        with self._lock:
            self._waiting.setdefault(who, deque()).append(work)

    def run_next(self) -> None:
        """Do the piece of work whose turn it is, of whomever."""
        with self._lock:
            who = next(iter(self._waiting))
            theirs = self._waiting.pop(who)
            work = theirs.popleft()
            if theirs:
                self._waiting[who] = theirs
        work()
