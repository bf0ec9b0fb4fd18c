# SPDX-License-Identifier: Apache-2.0
"""Switch that makes the APIs read-only. It is set in the configuration, or by an operator at run time.

While the switch is on, the APIs refuse requests that write. Operations that have already started continue.
"""

import time
from collections.abc import Callable
from typing import Protocol

from kilonova.api.faults import HttpError
from kilonova.db import switches
from kilonova.db.database import Database

#: Maximum age of the cached switch in seconds. A change by another process takes effect in this one within that time.
KNOWN_FOR_S = 1.0
_RETRY_AFTER_S = 60
CONFIGURED = "[api] read_only is set"


class Writability(Protocol):
    """Interface that tells whether the API is read-only. It is called before each request that writes."""

    def reason(self) -> str | None:
        """Return the reason why the API is read-only, or None if writes are allowed. Raises: Unavailable."""

    def forget(self) -> None:
        """Drop the cached state of the switch. Called after this process has changed the switch."""


class AlwaysWritable:
    """The :class:`Writability` of an API without a switch."""

    def reason(self) -> str | None:
        return None

    def forget(self) -> None: ...


class ReadOnlySwitch:
    """The switch in the database. Only requests that write need it; its state is cached for a second."""

    def __init__(
        self, database: Database, *, configured: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._configured = configured
        self._clock = clock
        self._known: tuple[float, str | None] | None = None

    def reason(self) -> str | None:
        if self._configured:
            return CONFIGURED
        known, now = self._known, self._clock()
        if known is None or now - known[0] >= KNOWN_FOR_S:
            with self._database.read() as connection:
                switch = switches.find(connection, switches.READ_ONLY)
            self._known = known = now, None if switch is None else switch.reason
        return known[1]

    def forget(self) -> None:
        self._known = None


def require_writable(writability: Writability) -> None:
    """Raise HttpError 503 with ``Retry-After`` while the API is read-only."""
    reason = writability.reason()
    if reason is not None:
        because = f" ({reason})" if reason else ""
        raise HttpError(
            503,
            f"The API is read-only at present{because}: nothing was changed. Reads still work, and operations"
            " under way continue.",
            Retry_After=str(_RETRY_AFTER_S),
        )
