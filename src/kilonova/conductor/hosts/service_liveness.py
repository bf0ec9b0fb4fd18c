# SPDX-License-Identifier: Apache-2.0
"""Liveness of processes: a process without heartbeats for ``down_time`` is marked as down, with all its hosts.

Only the time during which this process was able to receive heartbeats is counted. Otherwise, after an outage of the
broker or the database, or after a stop of all control processes, all hosts would be marked as down without reason.
"""

import logging
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

from kilonova.db import host_agents
from kilonova.db.database import Database
from kilonova.db.host_agents import Silent

LOG = logging.getLogger(__name__)
#: Longest gap in seconds between two checks of a running process. On a busy machine a check may be that late; after a
#: longer gap, the process is assumed to have been suspended.
_NO_STOP_S = 3.0


class Listening:
    """Measures how long this process has been able to receive heartbeats.

    ``down_time``: duration that :meth:`silent_since` requires. ``clock``: monotonic clock in seconds, which also
    advances while the process is suspended.
    """

    def __init__(self, down_time: timedelta, clock: Callable[[], float] = time.monotonic) -> None:
        self._enough_s = down_time.total_seconds()
        self._clock = clock
        self._looked_at: float | None = None
        self._heard_before = False
        self._heard_s = 0.0
        #: Checks, oldest first: database time of the check, and seconds of listening until then.
        self._looks: deque[tuple[datetime, float]] = deque()

    def note(self, now: datetime, *, hears: bool) -> None:
        """Record a check. ``now``: database time. ``hears``: whether this process can receive heartbeats."""
        at = self._clock()
        passed_s = 0.0 if self._looked_at is None else at - self._looked_at
        was_stopped = passed_s > max(self._enough_s / 2, _NO_STOP_S)
        if hears and self._heard_before and not was_stopped:
            self._heard_s += passed_s
        self._looked_at, self._heard_before = at, hears
        self._looks.append((now, self._heard_s))
        while len(self._looks) > 1 and self._heard_s - self._looks[1][1] >= self._enough_s:
            self._looks.popleft()

    def deaf(self) -> None:
        """Record that this process cannot receive heartbeats."""
        self._heard_before = False

    def silent_since(self) -> datetime | None:
        """Return the time of the latest check with at least ``down_time`` of listening after it, or None."""
        looked_at, heard_s = self._looks[0] if self._looks else (None, 0.0)
        return looked_at if self._heard_s - heard_s >= self._enough_s else None


class ServiceLiveness:
    """Marks silent processes as down. All control processes check; the first one that finds a silent process marks it.

    ``down_time``: longest time without a heartbeat. ``listener``: uuid of this process, which is never marked: it runs,
    although it may not have sent a heartbeat yet after a suspension. ``hears``: returns whether this process can
    receive heartbeats.
    """

    def __init__(
        self,
        database: Database,
        down_time: timedelta,
        *,
        listener: str,
        hears: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._down_time = down_time
        self._listener = listener
        self._hears = hears
        self._listening = Listening(down_time, clock)

    @property
    def look_every_s(self) -> float:
        """Interval of checks in seconds. It is short enough to mark a process as down soon after ``down_time``."""
        return min(5.0, max(0.5, self._down_time.total_seconds() / 10))

    def look(self) -> None:
        """Mark as down the processes that have become silent since the last check. Raises: Unavailable."""
        try:
            with self._database.read() as connection:
                now = self._database.clock.now()
                self._listening.note(now, hears=self._hears())
                since = self._listening.silent_since()
                if since is None:
                    return
                since = min(since, now - self._down_time)
                found = host_agents.silent(connection, since, besides=self._listener)
        except BaseException:
            self._listening.deaf()
            raise
        if found:
            for each in self._database.write(lambda tx: host_agents.mark_silent(tx, since, besides=self._listener)):
                _tell(each)


def _tell(silent: Silent) -> None:
    name = f"Agent process {silent.agent}" if silent.agent else f"Control process {silent.process}"
    where = f" on {silent.machine}" if silent.machine else ""
    level = logging.WARNING if silent.hosts else logging.INFO
    LOG.log(
        level, "%s%s was last heard of at %s; its %d hosts are down", name, where, silent.last_seen_at, silent.hosts
    )
