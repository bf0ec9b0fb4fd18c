# SPDX-License-Identifier: Apache-2.0
"""Limits of the number of concurrent consoles, in total and for each server."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class ConsoleLimits:
    """Counter of consoles in use. ``limit``: maximum number of all consoles.

    ``of_one``: maximum number of consoles of each server, so that the users of one server cannot
    occupy all consoles.
    """

    def __init__(self, limit: int, of_one: int) -> None:
        self._limit = limit
        self._of_one = of_one
        self._taken: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        return self._taken.total()

    def is_free(self, server: str) -> bool:
        return self.taken < self._limit and self._taken[server] < self._of_one

    @contextmanager
    def take(self, server: str) -> Iterator[bool]:
        """Count a console of ``server`` as in use during the context; yield False if a limit is reached."""
        if not self.is_free(server):
            yield False
            return
        self._taken[server] += 1
        try:
            yield True
        finally:
            self._taken[server] -= 1
            if not self._taken[server]:
                del self._taken[server]
