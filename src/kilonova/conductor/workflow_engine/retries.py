# SPDX-License-Identifier: Apache-2.0
"""Retries of broken steps and waits for absent hosts, both with exponential back-off, and their limits."""

import threading
from collections import Counter
from collections.abc import Callable, Collection
from datetime import datetime, timedelta

from kilonova.conductor.workflow_engine.run import Failure, HasHost, Run, UndoFailedError

#: Number of unexpected errors of a step after which its workflow rolls back, or is stuck if it cannot roll back.
MAX_TRIES = 10
_LONGEST_PAUSE_S = 60.0


def pause_s(tries: int) -> float:
    """Return the back-off in seconds after a number of tries: 1, 2, 4 … 60."""
    return min(_LONGEST_PAUSE_S, 2.0 ** min(tries - 1, 10))


class Retries:
    """The workflows of a process that wait for a retry or for an absent host.

    ``pause_s``: number of tries → seconds until the next one. ``max_tries``: limit of the retries of a broken step.
    ``absent_host_timeout``: limit of the wait for an absent host; None: no limit. Such a wait never counts as a try.
    """

    def __init__(
        self,
        pause_s: Callable[[int], float],
        max_tries: int,
        clock: Callable[[], float],
        absent_host_timeout: timedelta | None = None,
    ) -> None:
        self._pause_s = pause_s
        self._max_tries = max_tries
        self._clock = clock
        self._absent_host_timeout = absent_host_timeout
        self._lock = threading.Lock()
        #: Workflow uuid → clock time of its retry.
        self._due: dict[str, float] = {}
        #: Workflow uuid → how often the workflow has sent its order to an absent host since that host was last seen.
        self._waits: Counter[str] = Counter()

    def are_over(self, run: Run[HasHost]) -> bool:
        """Return True if a step that has just failed again has used up its retries."""
        return run.row.tries + 1 >= self._max_tries

    def later(self, uuid: str, tries: int) -> None:
        """Schedule a retry of a workflow after its back-off."""
        with self._lock:
            self._due[uuid] = self._clock() + self._pause_s(tries)

    def wait(self, uuid: str) -> None:
        """Schedule the next time that a workflow sends its order to the absent host that it waits for."""
        with self._lock:
            self._waits[uuid] += 1
            self._due[uuid] = self._clock() + self._pause_s(self._waits[uuid])

    def wake(self, uuids: Collection[str]) -> None:
        """Make the retries of these workflows due now, because the host that they wait for has returned."""
        with self._lock:
            for uuid in uuids:
                self._waits[uuid] = 0  # reset the back-off, also for a try that fails at this moment
                if uuid in self._due:
                    self._due[uuid] = self._clock()

    def has_waited_too_long(self, since: datetime, now: datetime) -> bool:
        """Return True if a wait for an absent host exceeds its limit."""
        return self._absent_host_timeout is not None and now - since > self._absent_host_timeout

    def due(self) -> tuple[str, ...]:
        """Return the workflows whose retries are due, and remove them from the schedule."""
        now = self._clock()
        with self._lock:
            due = sorted(uuid for uuid, when in self._due.items() if when <= now)
            for uuid in due:
                del self._due[uuid]
        return tuple(due)

    def forget(self, uuid: str) -> None:
        with self._lock:
            self._due.pop(uuid, None)
            del self._waits[uuid]

    def clear(self) -> None:
        with self._lock:
            self._due.clear()
            self._waits.clear()

    @staticmethod
    def failure(run: Run[HasHost], error: Exception) -> Failure:
        """Return the failure of a step that is given up. Users see the error of an agent, but no other error."""
        message = str(error) if isinstance(error, UndoFailedError) else "An unexpected error stopped the operation."
        return Failure(message, f"{type(error).__name__}: {error}", run.facts.host)
