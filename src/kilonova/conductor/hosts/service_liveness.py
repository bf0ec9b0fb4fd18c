# SPDX-License-Identifier: Apache-2.0
"""Notice processes that say nothing any more, and count them, with all their hosts, as down.

ServiceLiveness counts only while somebody listens: when the broker or the database was away, or no control process ran,
nobody could have been heard, and all hosts would be down at once although none of them has failed.
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
#: Between two looks so much may pass on a busy machine.
_NO_STOP_S = 3.0


class Listening:
    """For how long a process has listened, looked at from time to time. ``down_time``: as much of it as is asked for.

    ``clock``: of this process, in seconds; it goes on while the process is stopped.
    """

    def __init__(self, down_time: timedelta, clock: Callable[[], float] = time.monotonic) -> None:
        self._enough_s = down_time.total_seconds()
        self._clock = clock
        self._looked_at: float | None = None
        self._heard_before = False
        self._heard_s = 0.0
        #: When it was looked, and for how long this process had listened then, the oldest first.
        self._looks: deque[tuple[datetime, float]] = deque()

    def note(self, now: datetime, *, hears: bool) -> None:
        """Note whether this process hears others now, by the clock of the database."""
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
        """Note that this process hears nobody."""
        self._heard_before = False

    def silent_since(self) -> datetime | None:
        """Return the time since when this process has listened for long enough; None when it has not."""
        looked_at, heard_s = self._looks[0] if self._looks else (None, 0.0)
        return looked_at if self._heard_s - heard_s >= self._enough_s else None


class ServiceLiveness:
    """Every control process looks; whoever is first notes it.

    ``down_time``: for how long a process may say nothing. ``listener``: the process that looks, which is alive, even
    where it was stopped for a while and has not said so yet. ``hears``: whether it would hear agents now.
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
        """How often to look, so that a process counts as down soon after its time is over."""
        return min(5.0, max(0.5, self._down_time.total_seconds() / 10))

    def look(self) -> None:
        """Note which processes have gone down since the last time. Reads only, as long as there are none.

        Raises: Unavailable.
        """
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
