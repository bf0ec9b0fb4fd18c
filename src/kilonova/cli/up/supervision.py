# SPDX-License-Identifier: Apache-2.0
"""Supervision of the processes of a cloud: a process that ends is started again, after a pause that grows.

::

    ready ──ends──▶ pause ──restart──▶ starting ──answers──▶ ready
                      ▲                   │
                      └─ends or timeout───┘  too often or for too long without being ready: the cloud ends
"""

import time
from collections.abc import Callable, Sequence
from typing import NoReturn

from kilonova.cli.up.children import Watched, wait
from kilonova.errors import KilonovaError, Unavailable
from kilonova.process_signals import wakeup
from kilonova.records import dataclass

_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class RestartLimits:
    """Limits of restarts.

    ``first_pause_s``: pause before the first restart; each further pause is twice as long, up to ``longest_pause_s``.
    ``stable_s``: after a process was ready for this time, the pause before its next restart is the first pause again.
    ``start_timeout_s``: a restarted process that is not ready after this time is killed, and its start has failed.
    ``most_failed_starts``: number of failed starts in a row after which the cloud is stopped.
    ``longest_outage_s``: the cloud is also stopped if a start fails this long after the process was last ready.
    """

    first_pause_s: float = 1.0
    longest_pause_s: float = 30.0
    stable_s: float = 60.0
    start_timeout_s: float = 120.0
    most_failed_starts: int = 5
    longest_outage_s: float = 300.0


class Supervision:
    """Keeps the processes of a cloud running. Create it when all processes are ready; run it in the main thread.

    ``say``: receives one line for each restart.
    """

    def __init__(
        self,
        parts: Sequence[Watched],
        say: Callable[[str], None],
        limits: RestartLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        limits = limits or RestartLimits()
        self._restarts = [_Restarts(part, say, limits, clock) for part in parts]
        self._clock = clock

    def run(self) -> NoReturn:
        """Restart processes that end, until a signal handler raises an exception.

        Raises: Unavailable naming a process that cannot be started again; exceptions of signal handlers.
        """
        with wakeup() as signals:
            while True:
                timeout_s = self.step()
                wait([each.part for each in self._restarts if each.due is None], timeout_s, signals)

    def step(self) -> float | None:
        """Check all processes, and restart those that are due.

        Return the seconds until the next step, or None to wait until a process ends. Raises: Unavailable.
        """
        times = [due for each in self._restarts if (due := each.step()) is not None]
        return max(0.0, min(times) - self._clock()) if times else None


class _Restarts:
    """The state of one process. ``due``: time of its restart; None unless the process waits for a restart."""

    def __init__(
        self, part: Watched, say: Callable[[str], None], limits: RestartLimits, clock: Callable[[], float]
    ) -> None:
        self.part = part
        self.due: float | None = None
        self._say = say
        self._limits = limits
        self._clock = clock
        self._ready_at: float | None = clock()
        self._started_at = clock()
        self._down_at = clock()
        self._pauses = 0
        self._failed_starts = 0

    def step(self) -> float | None:
        """Check the process, and restart it if due. Return the time of the next step; None: when the process ends."""
        if self.due is not None and self._clock() >= self.due:
            self._restart()
        if self.due is None:
            self._check()
        if self.due is not None:
            return self.due
        return None if self._ready_at is not None else self._clock() + _POLL_S

    def _restart(self) -> None:
        self.due = self._ready_at = None
        self._started_at = self._clock()
        try:
            self.part.restart()
        except (OSError, KilonovaError) as error:
            self._failed(f"failed: {str(error).splitlines()[0]}")

    def _check(self) -> None:
        if self.part.ended():
            if self._ready_at is None:
                self._failed(self.part.ending())
            else:
                self._ended(self._ready_at)
        elif self._ready_at is None:
            if self._answers():
                self._ready_at = self._clock()
            elif self._clock() - self._started_at >= self._limits.start_timeout_s:
                self.part.kill()
                self._failed(f"was not ready after {self._limits.start_timeout_s:g} s")

    def _answers(self) -> bool:
        try:
            return self.part.answers()
        except Unavailable:  # the process has just ended, or the database that shows its state does not answer
            return False

    def _ended(self, ready_at: float) -> None:
        self._down_at = self._clock()
        self._failed_starts = 0
        if self._clock() - ready_at >= self._limits.stable_s:
            self._pauses = 0
        self._pause(self.part.ending())

    def _failed(self, how: str) -> None:
        self._failed_starts += 1
        if (
            self._failed_starts >= self._limits.most_failed_starts
            or self._clock() - self._down_at >= self._limits.longest_outage_s
        ):
            raise Unavailable(
                f"{self.part.name} cannot be started again: {self._failed_starts} starts in a row failed; the last one "
                f"{how}; see {self.part.log}"
            )
        self._pause(how)

    def _pause(self, how: str) -> None:
        pause = min(self._limits.first_pause_s * 2**self._pauses, self._limits.longest_pause_s)
        self._pauses += pause < self._limits.longest_pause_s
        self.due = self._clock() + pause
        self._say(f"{self.part.name} {how}; starting it again in {pause:g} s, log in {self.part.log}")
