# SPDX-License-Identifier: Apache-2.0
"""Whether the APIs change anything at present: what an operator has said in the configuration, or while the cloud runs.

Reads are answered, and what is under way goes on.
"""

import time
from collections.abc import Callable
from typing import Protocol

from kilonova.api.faults import HttpError
from kilonova.db import switches
from kilonova.db.database import Database

#: How old what a process knows of the switch may be: within that time another process has turned it.
KNOWN_FOR_S = 1.0
_RETRY_AFTER_S = 60
CONFIGURED = "[api] read_only is set"


class Writability(Protocol):
    """What a request asks before it changes anything."""

    def reason(self) -> str | None:
        """Return why nothing is changed, None while things are. Raises: Unavailable."""

    def forget(self) -> None:
        """Look again at the next request: this process has turned the switch."""


class AlwaysWritable:
    """Of an API without a switch."""

    def reason(self) -> str | None:
        return None

    def forget(self) -> None: ...


class ReadOnlySwitch:
    """The switch in the database, looked at once a second at most, and only when something is to be changed."""

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
    """Raises: HttpError 503 with the time after which it is worth trying again."""
    reason = writability.reason()
    if reason is not None:
        because = f" ({reason})" if reason else ""
        raise HttpError(
            503,
            f"The API is read-only at present{because}: nothing was changed. Reads are answered, and what is under way"
            " goes on.",
            Retry_After=str(_RETRY_AFTER_S),
        )
