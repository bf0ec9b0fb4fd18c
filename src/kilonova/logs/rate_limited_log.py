# SPDX-License-Identifier: Apache-2.0
"""Warnings that others can cause as often as they like, so that they are logged now and then, with their number."""

import logging
import threading
import time
from collections.abc import Callable

_EVERY_S = 60.0
_MOST_KINDS = 1000
_LONGEST = 500


class RateLimitedLog:
    """Logs the first of each kind at once, and those that follow together, once a minute."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._lock = threading.Lock()
        #: Kind → when it was logged, and how often it has come since.
        self._kinds: dict[str, tuple[float, int]] = {}

    def complain(self, kind: str, text: str, error: BaseException | None = None) -> None:
        """Log ``text``, which others may have written in part, unless one of its kind was logged lately.

        ``error``: one that nobody foresaw, to be logged with where it came from.
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
    """Return a text as one line of some length, whatever is in it."""
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
    return "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in shown)
