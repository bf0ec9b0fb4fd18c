# SPDX-License-Identifier: Apache-2.0
"""The outcome of a write for the one thread that waits for it.

Every write of a request has one. A ``Future`` does the same for any number of threads, with a condition of several
locks, and takes ten times as long.
"""

import threading
from typing import Any


class PendingOutcome:
    """What one thread begins, or another one cancels before; its outcome is set once, and one thread waits for it."""

    __slots__ = ("_is_begun", "_is_done", "_is_there", "_outcome")

    def __init__(self) -> None:
        #: Whoever takes it first begins the job, or gives it up.
        self._is_begun = threading.Lock()
        #: Free once the outcome is there.
        self._is_there = threading.Lock()
        self._is_there.acquire()
        self._is_done = False
        self._outcome: Any = None

    def set_running_or_notify_cancel(self) -> bool:
        """Begin, and tell whether that may be: not after :meth:`cancel`."""
        return self._is_begun.acquire(blocking=False)

    def cancel(self) -> bool:
        """Give it up, and tell whether that is possible: not once it has begun."""
        return self._is_begun.acquire(blocking=False)

    def done(self) -> bool:
        return self._is_done

    def set_result(self, outcome: Any) -> None:
        self._outcome = outcome
        self._is_done = True
        self._is_there.release()

    set_exception = set_result

    def wait(self, timeout_s: float) -> bool:
        """Wait for the outcome, for ever with -1. Tells whether it is there."""
        return self._is_done or self._is_there.acquire(timeout=timeout_s)

    def result(self) -> Any:
        """Return the outcome once it is there, or raise it."""
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome
