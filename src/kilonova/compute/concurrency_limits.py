# SPDX-License-Identifier: Apache-2.0
"""Concurrency limits of a host, one for each kind of order. An order that a limit delays occupies no thread."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from kilonova.messaging.messages import LiveMigrate, SpawnGuest
from kilonova.records import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HostLimits:
    """The maximum numbers of builds and of outgoing live migrations that a host runs at once; 0 for no limit."""

    builds: int = 0
    live_migrations: int = 0


class ConcurrencyLimit(Generic[T]):
    """Admits orders up to the limit of their kind; further orders wait in a first-in, first-out queue."""

    def __init__(self, limits: HostLimits) -> None:
        every = {SpawnGuest: limits.builds, LiveMigrate: limits.live_migrations}
        self._limits: Mapping[type, int] = {kind: limit for kind, limit in every.items() if limit}
        self._lock = threading.Lock()
        self._inside: dict[type, list[T]] = {kind: [] for kind in self._limits}
        self._waiting: dict[type, deque[T]] = {kind: deque() for kind in self._limits}

    def enter(self, kind: type, who: T) -> bool:
        """Admit ``who`` and return True, or queue it and return False; a later :meth:`leave` then returns it."""
        with self._lock:
            if kind not in self._limits:
                return True
            if len(self._inside[kind]) < self._limits[kind]:
                self._inside[kind].append(who)
                return True
            self._waiting[kind].append(who)
            return False

    def leave(self, kind: type, who: T) -> T | None:
        """Free the slot of ``who``; return the queued order that gets the slot, or None.

        If ``who`` was never admitted, no slot is freed.
        """
        with self._lock:
            if kind not in self._limits or who not in self._inside[kind]:
                return None
            self._inside[kind].remove(who)
            if not self._waiting[kind]:
                return None
            heir = self._waiting[kind].popleft()
            self._inside[kind].append(heir)
            return heir

    def call_off(self, is_meant: Callable[[T], bool]) -> T | None:
        """Remove and return the first queued order that ``is_meant`` accepts; return None if there is none."""
        with self._lock:
            for queue in self._waiting.values():
                for who in queue:
                    if is_meant(who):
                        queue.remove(who)
                        return who
        return None
