# SPDX-License-Identifier: Apache-2.0
"""When steps that broke are tried again, and when not any more."""

import threading
from collections.abc import Callable
from typing import Any

from kilonova.conductor.workflow_engine.workflow import Failure, Run, UndoFailedError

#: How often a step may break before it counts as failed or stuck.
MAX_TRIES = 10
_LONGEST_PAUSE_S = 60.0


def pause_s(tries: int) -> float:
    """Return how many seconds a step that broke so often waits: 1, 2, 4 … 60."""
    return min(_LONGEST_PAUSE_S, 2.0 ** min(tries - 1, 10))


class Retries:
    """The workflows of a process whose step broke. ``pause_s``: tries so far → seconds to wait."""

    def __init__(self, pause_s: Callable[[int], float], max_tries: int, clock: Callable[[], float]) -> None:
        self._pause_s = pause_s
        self._max_tries = max_tries
        self._clock = clock
        self._lock = threading.Lock()
        #: Workflow → when it is tried again.
        self._due: dict[str, float] = {}

    def are_over(self, run: Run[Any]) -> bool:
        """Tell whether a step that has just broken once more is not to be tried again."""
        return run.row.tries + 1 >= self._max_tries

    def later(self, uuid: str, tries: int) -> None:
        """Have a workflow tried again when its time has come."""
        with self._lock:
            self._due[uuid] = self._clock() + self._pause_s(tries)

    def due(self) -> tuple[str, ...]:
        """Return the workflows whose time has come, each once."""
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
    def failure(run: Run[Any], error: Exception) -> Failure:
        """Return why a step is given up. What an agent has said is for the owner of the server, too."""
        message = str(error) if isinstance(error, UndoFailedError) else "An unexpected error stopped the operation."
        return Failure(message, f"{type(error).__name__}: {error}", run.facts.host)
