# SPDX-License-Identifier: Apache-2.0
"""What the function of a job gets: the present cloud, the database, and a place to report its progress."""

import time
from collections.abc import Callable
from dataclasses import field

from kilonova.claims.present_cloud import CloudState, PresentCloud
from kilonova.db.database import Database
from kilonova.records import dataclass

_REPORTED_EVERY_S = 0.2


@dataclass(slots=True)
class JobContext:
    """The environment of one job, in a process that computes nothing else and only reads the database.

    ``report``: sends the share done and a text to the control process. Processes that a job starts must call
    ``die_with_parent``, because a cancelled job is killed.
    """

    cloud: PresentCloud
    report: Callable[[float, str], None]
    clock: Callable[[], float] = time.monotonic
    _told: tuple[float, str] = (0.0, "")
    _told_at: float = field(default=float("-inf"))

    @property
    def database(self) -> Database:
        """The database, for reading only: of SQLite, the control process is the only writer."""
        return self.cloud.database

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
