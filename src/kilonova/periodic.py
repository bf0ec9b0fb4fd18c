# SPDX-License-Identifier: Apache-2.0
"""Threads that do something again and again, beside all else, until they are told to stop."""

import logging
import threading
from collections.abc import Callable

from kilonova.errors import Unavailable

LOG = logging.getLogger(__name__)


class PeriodicThread:
    """Does ``task`` every ``every_s`` seconds, from the start or after the first ``every_s``, which may change.

    A failure is logged under ``complaint``, and the next turn comes. Where something cannot be reached that takes one
    line, and no more until a turn goes well or another thing is missing.
    """

    def __init__(
        self,
        name: str,
        task: Callable[[], object],
        every_s: float | Callable[[], float],
        *,
        complaint: str,
        from_start: bool = False,
    ) -> None:
        self._task = task
        self._every_s = every_s if callable(every_s) else lambda: every_s
        self._complaint = complaint
        self._from_start = from_start
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

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
        if not self._from_start and self.rest(self._every_s()):
            return
        told = None
        while True:
            try:
                self._task()
                told = None
            except Unavailable as error:
                if error.message != told:
                    LOG.warning("%s: %s", self._complaint, error.message)
                told = error.message
            except Exception:
                LOG.exception("%s", self._complaint)
            if self.rest(self._every_s()):
                return
