# SPDX-License-Identifier: Apache-2.0
"""Rate limit for warnings that clients or other processes could otherwise cause any number of times."""

import logging
import threading
import time
from collections.abc import Callable

_EVERY_S = 60.0
_MOST_KINDS = 1000
_LONGEST = 500


class RateLimitedLog:
    """Logs at most one warning of each kind per minute.

    A warning names the number of warnings of its kind that were suppressed since the previous one.
    """

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._lock = threading.Lock()
        #: Kind → time of the last logged warning, and number of warnings suppressed since.
        self._kinds: dict[str, tuple[float, int]] = {}

    def complain(self, kind: str, text: str, error: BaseException | None = None) -> None:
        """Log ``text``, escaped and cut, unless a warning of this kind was logged within the last minute.

        ``error``: an unexpected exception, to be logged with its traceback.
        """
        now = self._clock()
        with self._lock:
            logged_at, since = self._kinds.get(kind, (float("-inf"), 0))
            if now - logged_at < _EVERY_S:
                self._kinds[kind] = (logged_at, since + 1)
                return
            if len(self._kinds) >= _MOST_KINDS:
                self._kinds.clear()
            self._kinds[kind] = (now, 0)
        more = f" ({since} more like it since the last time)" if since else ""
        self._log.warning("%s%s", _one_line(text), more, exc_info=error)


def _one_line(text: str) -> str:
    """Escape a text to one line, and cut it to ``_LONGEST`` characters."""
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
    return "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in shown)
