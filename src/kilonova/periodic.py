# SPDX-License-Identifier: Apache-2.0
"""Periodic tasks: threads that do something again and again, and the register of those of one process."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol, runtime_checkable

from kilonova.clock import utc_now
from kilonova.errors import Unavailable

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """How a periodic task went the last time.

    ``interval_s``: from the end of a turn to the start of the next one. ``last_start``: None before the first turn.
    ``last_duration_s``, ``last_error``: of the last turn that is over; no error: it went well. ``next_start``: None
    while a turn is under way, and of a task that has been stopped. Times are UTC, by the clock of this machine.
    """

    name: str
    description: str
    interval_s: float
    is_running: bool = False
    last_start: datetime | None = None
    last_duration_s: float | None = None
    last_error: str | None = None
    next_start: datetime | None = None


class PeriodicThread:
    """Does ``task`` every ``every_s`` seconds, from the start or after the first ``every_s``, which may change.

    ``description``: what the task does, in one line for operators. A failure is logged under ``complaint``, and the
    next turn comes. Where something cannot be reached that takes one line, and no more until a turn goes well or
    another thing is missing.
    """

    def __init__(
        self,
        name: str,
        task: Callable[[], object],
        every_s: float | Callable[[], float],
        *,
        description: str,
        complaint: str,
        from_start: bool = False,
    ) -> None:
        self.name = name
        self.description = description
        self._task = task
        self._every_s = every_s if callable(every_s) else lambda: every_s
        self._complaint = complaint
        self._from_start = from_start
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        #: Replaced as a whole after each change, so that it is read without a lock.
        self._last = TaskRun(name=name, description=description, interval_s=0.0)

    @property
    def periodic_threads(self) -> Sequence["PeriodicThread"]:
        """Only itself."""
        return (self,)

    @property
    def is_alive(self) -> bool:
        """Whether it was started and has not ended."""
        return self._thread.is_alive()

    @property
    def last_run(self) -> TaskRun:
        """How the last turn went, and when the next one is due."""
        return self._last

    def start(self) -> None:
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Let the turn under way be the last, without waiting for its end."""
        self._stop.set()

    def stop(self) -> None:
        """Wait until the turn under way is over; there is no other. One that never started just stays so."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def rest(self, seconds: float) -> bool:
        """Wait in the middle of a turn. Tells whether the thread is to stop; then it waits no longer."""
        return self._stop.wait(seconds)

    def _run(self) -> None:
        if not self._from_start and self._pause():
            return
        told = None
        while True:
            self._note(is_running=True, last_start=utc_now(), next_start=None)
            began, failure = time.monotonic(), None
            try:
                self._task()
                told = None
            except Unavailable as error:
                failure = error.message
                if error.message != told:
                    LOG.warning("%s: %s", self._complaint, error.message)
                told = error.message
            except Exception as error:
                failure = f"{type(error).__name__}, see the log"
                LOG.exception("%s", self._complaint)
            self._note(is_running=False, last_duration_s=time.monotonic() - began, last_error=failure)
            if self._pause():
                return

    def _pause(self) -> bool:
        """Wait for the next turn. Tells whether there is none."""
        every_s = self._every_s()
        self._note(interval_s=every_s, next_start=utc_now() + timedelta(seconds=every_s))
        is_over = self.rest(every_s)
        if is_over:
            self._note(next_start=None)
        return is_over

    def _note(self, **changed: Any) -> None:
        self._last = replace(self._last, **changed)


@runtime_checkable
class OwnsPeriodicThreads(Protocol):
    """A part of a process that does something from time to time."""

    @property
    def periodic_threads(self) -> Sequence[PeriodicThread]:
        """The threads that are switched on."""


class PeriodicPart:
    """A part of a process with some periodic threads, which start and stop together."""

    def __init__(self, name: str, threads: Sequence[PeriodicThread]) -> None:
        self.name = name
        self.periodic_threads = tuple(threads)

    def start(self) -> None:
        for thread in self.periodic_threads:
            thread.start()

    def stop(self) -> None:
        """End after the turns under way."""
        for thread in self.periodic_threads:
            thread.ask_to_stop()
        for thread in self.periodic_threads:
            thread.stop()


class PeriodicTasks:
    """The register: which periodic tasks a process has, and how each of them went the last time."""

    def __init__(self) -> None:
        self._owners: list[OwnsPeriodicThreads] = []

    def add(self, owner: OwnsPeriodicThreads) -> None:
        """Register the threads of ``owner``, those too that it begins later."""
        self._owners.append(owner)

    @property
    def periodic_threads(self) -> tuple[PeriodicThread, ...]:
        """All threads that are registered."""
        return tuple(thread for owner in self._owners for thread in owner.periodic_threads)

    def runs(self) -> tuple[TaskRun, ...]:
        """Return how each task went the last time, in the order of their names."""
        return tuple(sorted((thread.last_run for thread in self.periodic_threads), key=lambda run: run.name))
