# SPDX-License-Identifier: Apache-2.0
"""The present as a database has it: all processes agree on that, whatever their own clocks say.

SQLite has one process, whose clock it is. A server tells its time with every write transaction; in between it goes on
by a clock of this machine that nobody sets.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from kilonova.lease import seconds_since_boot


def epoch_of(moment: datetime) -> float:
    """Return seconds since 1970 of a time as the tables keep it."""
    return moment.replace(tzinfo=UTC).timestamp()


class DatabaseClock:
    """``own``: the clock of a database that has none itself. ``ask``: reads that of a server, if none was told yet."""

    def __init__(self, own: Callable[[], datetime] | None, ask: Callable[[], datetime]) -> None:
        self._own = own
        self._ask = ask
        #: What a server's clock had shown when this machine started; so both are known with one value.
        self._at_boot: datetime | None = None

    def told(self, now: datetime | None) -> datetime:
        """Take over what a server has just told, and return it; None stands for a database without a clock."""
        if now is None:
            return self.now()
        self._at_boot = now - timedelta(seconds=seconds_since_boot())
        return now

    def now(self) -> datetime:
        """Return the present in UTC, without zone. Raises: Unavailable, where a server has to be asked first."""
        if self._own is not None:
            return self._own()
        if self._at_boot is None:
            return self.told(self._ask())
        return self._at_boot + timedelta(seconds=seconds_since_boot())

    def seconds(self) -> float:
        """Return :meth:`now` in seconds since 1970."""
        return epoch_of(self.now())
