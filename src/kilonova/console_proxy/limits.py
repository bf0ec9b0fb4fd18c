# SPDX-License-Identifier: Apache-2.0
"""How many consoles may be used at a time, of all servers together and of one."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class ConsoleLimits:
    """``limit``: of all; ``of_one``: of one server, so that whoever has its tokens cannot keep others out."""

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
        """Have a seat for as long as the context lasts; say whether there was one."""
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
