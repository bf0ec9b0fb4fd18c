# SPDX-License-Identifier: Apache-2.0
"""What the function of a job gets: the present cloud, and a place to report its progress."""

import time
from collections.abc import Callable

from kilonova.claims.present_cloud import CloudState, PresentCloud
from kilonova.records import dataclass

_REPORTED_EVERY_S = 0.2
#: A search of unknown length is shown as halfway after this time.
_HALFWAY_S = 10.0


@dataclass(slots=True)
class JobContext:
    """The environment of one job, in a process that computes nothing else and only reads the database.

    ``cloud``: its database is read only: of SQLite, the control process is the only writer. ``report``: sends the
    share done and a text to the control process. Processes that a job starts must call ``die_with_parent``, because a
    cancelled job is killed.
    """

    cloud: PresentCloud
    report: Callable[[float, str], None]
    clock: Callable[[], float] = time.monotonic
    _told: tuple[float, str] = (0.0, "")
    _told_at: float = float("-inf")

    def snapshot(self) -> CloudState:
        """Load hosts, rules and change-log number of the present cloud, from one snapshot. Raises: Unavailable."""
        return self.cloud.state()

    def progress(self, done: float, text: str = "") -> None:
        """Report the share done, from 0 to 1, with a line of text. May be called often; few reports are sent."""
        now = self.clock()
        if now - self._told_at < _REPORTED_EVERY_S or (done, text) == self._told:
            return
        self._told, self._told_at = (done, text), now
        self.report(min(1.0, max(0.0, done)), text)

    def search(self, begun_at: float, text: str) -> Callable[[], None]:
        """Return a function that reports the progress of a search of unknown length, from the share ``begun_at`` on."""
        began = self.clock()

        def tell() -> None:
            passed_s = self.clock() - began
            self.progress(begun_at + (1 - begun_at) * passed_s / (passed_s + _HALFWAY_S), text)

        return tell
