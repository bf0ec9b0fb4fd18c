# SPDX-License-Identifier: Apache-2.0
"""How many orders of a kind a host carries out at a time. What has to wait keeps no thread waiting."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from kilonova.messaging.messages import LiveMigrate, SpawnGuest

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HostLimits:
    """How many builds, and how many live migrations from there, a host carries out at a time; 0: any number."""

    builds: int = 0
    live_migrations: int = 0


class ConcurrencyLimit(Generic[T]):
    """Lets in so many at a time of each kind that has a limit; the others wait, in the order in which they came."""

    def __init__(self, limits: HostLimits) -> None:
        every = {SpawnGuest: limits.builds, LiveMigrate: limits.live_migrations}
        self._limits: Mapping[type, int] = {kind: limit for kind, limit in every.items() if limit}
        self._lock = threading.Lock()
        self._inside: dict[type, list[T]] = {kind: [] for kind in self._limits}
        self._waiting: dict[type, deque[T]] = {kind: deque() for kind in self._limits}

    def enter(self, kind: type, who: T) -> bool:
        """Tell whether somebody may go on now. If not, whoever leaves next, or somebody after that one, hands it on."""
        with self._lock:
            if kind not in self._limits:
                return True
            if len(self._inside[kind]) < self._limits[kind]:
                self._inside[kind].append(who)
                return True
            self._waiting[kind].append(who)
            return False

    def leave(self, kind: type, who: T) -> T | None:
        """Make room; return who goes on instead, if anybody waits. One that never entered leaves no room."""
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
        """Take somebody who waits out of the queue."""
        with self._lock:
            for queue in self._waiting.values():
                for who in queue:
                    if is_meant(who):
                        queue.remove(who)
                        return who
        return None
