# SPDX-License-Identifier: Apache-2.0
"""Retries of broken steps with exponential back-off, and their limit."""

import threading
from collections.abc import Callable

from kilonova.conductor.workflow_engine.run import Failure, HasHost, Run, UndoFailedError

#: Number of unexpected errors after which a step counts as failed or stuck.
MAX_TRIES = 10
_LONGEST_PAUSE_S = 60.0


def pause_s(tries: int) -> float:
    """Return the back-off in seconds after so many tries: 1, 2, 4 … 60."""
    return min(_LONGEST_PAUSE_S, 2.0 ** min(tries - 1, 10))


class Retries:
    """The workflows of a process that wait for a retry. ``pause_s``: number of tries → seconds to wait."""

    def __init__(self, pause_s: Callable[[int], float], max_tries: int, clock: Callable[[], float]) -> None:
        self._pause_s = pause_s
        self._max_tries = max_tries
        self._clock = clock
        self._lock = threading.Lock()
        #: Workflow uuid → clock time of its retry.
        self._due: dict[str, float] = {}

    def are_over(self, run: Run[HasHost]) -> bool:
        """Return True if a step that has just failed again has used up its retries."""
        return run.row.tries + 1 >= self._max_tries

    def later(self, uuid: str, tries: int) -> None:
        """Schedule a retry of a workflow after its back-off."""
        with self._lock:
            self._due[uuid] = self._clock() + self._pause_s(tries)

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

    def clear(self) -> None:
        with self._lock:
            self._due.clear()

    @staticmethod
    def failure(run: Run[HasHost], error: Exception) -> Failure:
        """Return the failure of a step that is given up. Users see the error of an agent, but no other error."""
        message = str(error) if isinstance(error, UndoFailedError) else "An unexpected error stopped the operation."
        return Failure(message, f"{type(error).__name__}: {error}", run.facts.host)
