# SPDX-License-Identifier: Apache-2.0
"""Supervision of the workers of ``kilonova api``: a worker that ends is replaced, after a pause that grows.

::

    starting ──ready──▶ serving ──ends──▶ pause ──▶ starting
       └─ends─▶ pause; the error of a first start ends all workers

Each worker has a listener of its own. The kernel distributes connections among all listeners, also to the listener of a
worker that does not serve. So every serving worker also accepts connections from the listeners of workers that do not.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from kilonova.records import dataclass

LOG = logging.getLogger(__name__)


class WorkerProcess(Protocol):
    """A forked worker, as its parent sees it."""

    @property
    def pid(self) -> int: ...
    def is_ready(self) -> bool:
        """Return whether the worker has reported that it serves."""

    def has_ended(self) -> bool: ...
    def accept_from(self, numbers: Collection[int]) -> None:
        """Make the worker accept connections only from its own listener and from the listeners of these workers."""

    def ending(self) -> "Ending":
        """Return how the worker ended, and release the process. Call it once, after the end."""


@dataclass(frozen=True, slots=True)
class Ending:
    """End of a worker. ``status``: exit status, None if a signal killed it. ``text``: e.g. "was killed by SIGKILL"."""

    status: int | None
    text: str


@dataclass(frozen=True, slots=True)
class RestartLimits:
    """Limits of restarts.

    The first restart of a worker is immediate. ``first_pause_s``: pause before the second restart; each further pause
    is twice as long, up to ``longest_pause_s``. ``stable_s``: after a worker has served for this time, its restarts
    count from zero again. ``most_failed_starts``: failed starts in a row after which the parent gives up, if no worker
    serves.
    """

    first_pause_s: float = 1.0
    longest_pause_s: float = 30.0
    stable_s: float = 60.0
    most_failed_starts: int = 5

    def pause_s(self, restarts: int) -> float:
        """Return the pause before the next restart of a worker that has been restarted ``restarts`` times."""
        return min(self.first_pause_s * 2 ** (restarts - 1), self.longest_pause_s) if restarts else 0.0


class CannotServeError(Exception):
    """The workers cannot be started. ``ending``: how the last worker that failed has ended."""

    def __init__(self, number: int, ending: Ending) -> None:
        super().__init__(f"Worker {number} {ending.text}")
        self.number = number
        self.ending = ending


class Supervision:
    """Keeps ``count`` workers running, numbered from 1.

    ``start``: starts the worker of a number; raises OSError.
    """

    def __init__(
        self,
        count: int,
        start: Callable[[int], WorkerProcess],
        limits: RestartLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start = start
        self._limits = limits or RestartLimits()
        self._clock = clock
        self._places = {number: _Place(clock()) for number in range(1, count + 1)}
        self._failed_starts = 0

    @property
    def running(self) -> Mapping[int, WorkerProcess]:
        """Worker number → process, for started workers whose end has not been noticed."""
        return {number: place.process for number, place in self._places.items() if place.process is not None}

    @property
    def serving(self) -> Mapping[int, WorkerProcess]:
        return {number: process for number, process in self.running.items() if self._places[number].is_ready}

    def step(self) -> float | None:
        """Check all workers, and start those that are due.

        Return the seconds until the next start, or None if none is due. Raises: CannotServeError.
        """
        for number, place in self._places.items():
            self._observe(number, place)
        for number, place in self._places.items():
            if place.process is None and self._clock() >= place.due:
                self._start_worker(number, place)
        self._share_listeners()
        due = [place.due for place in self._places.values() if place.process is None]
        return max(0.0, min(due) - self._clock()) if due else None

    def _observe(self, number: int, place: "_Place") -> None:
        process = place.process
        if process is None:
            return
        if not place.is_ready and process.is_ready():
            place.ready_at = self._clock()
            place.has_served = True
            self._failed_starts = 0
            LOG.info("Worker %d (pid %d) serves", number, process.pid)
        if process.has_ended():
            self._ended(number, place, process.pid, process.ending())

    def _ended(self, number: int, place: "_Place", pid: int, ending: Ending) -> None:
        served_at, place.process, place.ready_at, place.shared = place.ready_at, None, None, None
        if served_at is None:
            self._failed_starts += 1
            is_wrong_from_the_start = not place.has_served and ending.status not in (None, 0)
            if is_wrong_from_the_start or (self._failed_starts >= self._limits.most_failed_starts and not self.serving):
                raise CannotServeError(number, ending)
        elif self._clock() - served_at >= self._limits.stable_s:
            place.restarts = 0
        pause_s = self._limits.pause_s(place.restarts)
        place.restarts += 1
        place.due = self._clock() + pause_s
        LOG.warning("Worker %d (pid %d) %s; starting another one in %g s", number, pid, ending.text, pause_s)

    def _start_worker(self, number: int, place: "_Place") -> None:
        try:
            place.process = self._start(number)
        except OSError as error:
            pause_s = self._limits.pause_s(max(1, place.restarts))
            place.restarts += 1
            place.due = self._clock() + pause_s
            LOG.error("Worker %d cannot be started: %s; next try in %g s", number, error.strerror, pause_s)  # noqa: TRY400

    def _share_listeners(self) -> None:
        serving = self.serving
        orphaned = frozenset(self._places.keys() - serving.keys())
        for number, process in serving.items():
            place = self._places[number]
            if place.shared != orphaned:
                process.accept_from(orphaned)
                place.shared = orphaned


class _Place:
    """The state of one worker number.

    ``due``: time of the next start. ``shared``: numbers of the other listeners that the worker serves.
    """

    def __init__(self, due: float) -> None:
        self.due = due
        self.process: WorkerProcess | None = None
        self.ready_at: float | None = None
        self.has_served = False
        self.restarts = 0
        self.shared: frozenset[int] | None = None

    @property
    def is_ready(self) -> bool:
        return self.ready_at is not None
