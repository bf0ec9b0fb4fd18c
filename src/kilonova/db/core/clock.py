# SPDX-License-Identifier: Apache-2.0
"""The clock of the database, on which all processes agree even if their own clocks differ.

An SQLite database has one process and uses the clock of that process. A database server returns its time with every
write transaction; between transactions that time is extrapolated with this machine's clock since boot, which cannot be
set.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from kilonova.lease import seconds_since_boot


def epoch_of(moment: datetime) -> float:
    """Convert a time as stored in tables (UTC without zone) to seconds since 1970."""
    return moment.replace(tzinfo=UTC).timestamp()


class DatabaseClock:
    """Clock of one database. ``own``: clock of this process, for SQLite; None for a database server.

    ``ask``: reads the server's clock; called only if no transaction has returned the server's time yet.
    """

    def __init__(self, own: Callable[[], datetime] | None, ask: Callable[[], datetime]) -> None:
        self._own = own
        self._ask = ask
        #: Time of the database server when this machine booted; None until the server has returned its time.
        self._at_boot: datetime | None = None

    def told(self, now: datetime | None) -> datetime:
        """Synchronise with ``now``, the time that the server has just returned; do nothing if it is None.

        Return the current time.
        """
        if now is None:
            return self.now()
        self._at_boot = now - timedelta(seconds=seconds_since_boot())
        return now

    def now(self) -> datetime:
        """Return the current time in UTC, without zone. Raises: Unavailable, if the server's time cannot be queried."""
        if self._own is not None:
            return self._own()
        if self._at_boot is None:
            return self.told(self._ask())
        return self._at_boot + timedelta(seconds=seconds_since_boot())

    def seconds(self) -> float:
        """Return :meth:`now` in seconds since 1970."""
        return epoch_of(self.now())
