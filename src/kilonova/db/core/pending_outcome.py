# SPDX-License-Identifier: Apache-2.0
"""The future of one write, for exactly one waiting thread.

Every write of a request creates one. A ``concurrent.futures.Future`` would be ten times slower, because it supports any
number of waiting threads by a condition with several locks.
"""

import threading
from typing import Any


class PendingOutcome:
    """Outcome of a job, set once and read by one waiting thread. A job is either started or cancelled, never both."""

    __slots__ = ("_is_begun", "_is_done", "_is_there", "_outcome")

    def __init__(self) -> None:
        #: Acquired once, by the thread that starts the job or by the thread that cancels it.
        self._is_begun = threading.Lock()
        #: Held until the outcome is set.
        self._is_there = threading.Lock()
        self._is_there.acquire()
        self._is_done = False
        self._outcome: Any = None

    def set_running_or_notify_cancel(self) -> bool:
        """Mark the job as started; return False if it was cancelled."""
        return self._is_begun.acquire(blocking=False)

    def cancel(self) -> bool:
        """Cancel the job; return False if it has started already."""
        return self._is_begun.acquire(blocking=False)

    def done(self) -> bool:
        return self._is_done

    def set_result(self, outcome: Any) -> None:
        self._outcome = outcome
        self._is_done = True
        self._is_there.release()

    set_exception = set_result

    def wait(self, timeout_s: float) -> bool:
        """Wait for the outcome, without limit if ``timeout_s`` is -1; return whether the outcome is set."""
        return self._is_done or self._is_there.acquire(timeout=timeout_s)

    def result(self) -> Any:
        """Return the outcome that was set, or raise it if it is an exception."""
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome
