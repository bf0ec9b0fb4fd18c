# SPDX-License-Identifier: Apache-2.0
"""Periodic tasks: threads that run a task at an interval, and the register of the tasks of one process."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Protocol, runtime_checkable

from kilonova.clock import utc_now
from kilonova.errors import Unavailable
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """Status of a periodic task.

    ``interval_s``: seconds from the end of a run to the start of the next run. ``last_start``: None before the first
    run. ``last_duration_s``, ``last_error``: of the last finished run; ``last_error`` is None if it succeeded.
    ``next_start``: None during a run, and after the task was stopped. Times are UTC, by the clock of this machine.
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
    """A thread that runs ``task`` every ``every_s`` seconds; ``every_s`` may be a function if the interval changes.

    ``from_start``: whether the first run starts immediately instead of after the first interval. ``description``: the
    task in one line, for operators. An error of ``task`` is logged with the prefix ``complaint`` and does not stop the
    thread. If several runs in a row fail with an Unavailable of the same message, only the first is logged.
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
        #: Each change replaces the whole object, so that readers need no lock.
        self._last = TaskRun(name=name, description=description, interval_s=0.0)

    @property
    def periodic_threads(self) -> Sequence["PeriodicThread"]:
        """A tuple with this thread as its only item."""
        return (self,)

    @property
    def is_alive(self) -> bool:
        """Whether the thread is running."""
        return self._thread.is_alive()

    @property
    def last_run(self) -> TaskRun:
        """Result of the last run, and time of the next one."""
        return self._last

    def start(self) -> None:
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Stop after the current run, without waiting for its end."""
        self._stop.set()

    def stop(self) -> None:
        """Stop after the current run, and wait for its end. No error if the thread was never started."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def rest(self, seconds: float) -> bool:
        """Sleep for ``seconds`` during a run. Return True, earlier, as soon as the thread is told to stop."""
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
        """Wait for the next run; return True if the thread is to stop."""
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
    """A part of a process, with periodic threads of its own."""

    @property
    def periodic_threads(self) -> Sequence[PeriodicThread]:
        """The enabled periodic threads."""


class PeriodicPart:
    """A part of a process with several periodic threads, which start and stop together."""

    def __init__(self, name: str, threads: Sequence[PeriodicThread]) -> None:
        self.name = name
        self.periodic_threads = tuple(threads)

    def start(self) -> None:
        for thread in self.periodic_threads:
            thread.start()

    def stop(self) -> None:
        """Stop all threads after their current runs, and wait for their end."""
        for thread in self.periodic_threads:
            thread.ask_to_stop()
        for thread in self.periodic_threads:
            thread.stop()


class PeriodicTasks:
    """Register of the periodic tasks of a process and their status."""

    def __init__(self) -> None:
        self._owners: list[OwnsPeriodicThreads] = []

    def add(self, owner: OwnsPeriodicThreads) -> None:
        """Register the periodic threads of ``owner``, including threads that it starts later."""
        self._owners.append(owner)

    @property
    def periodic_threads(self) -> tuple[PeriodicThread, ...]:
        """All registered threads."""
        return tuple(thread for owner in self._owners for thread in owner.periodic_threads)

    def runs(self) -> tuple[TaskRun, ...]:
        """Return the status of each task, ordered by name."""
        return tuple(sorted((thread.last_run for thread in self.periodic_threads), key=lambda run: run.name))
