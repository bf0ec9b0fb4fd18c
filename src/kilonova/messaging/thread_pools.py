# SPDX-License-Identifier: Apache-2.0
"""Threads in pools: work of one pool never waits behind that of another, however long that takes."""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from typing import Generic, TypeVar

from kilonova.messaging.messages import (
    AbortLiveMigration,
    AgentMessage,
    AskCachedImages,
    AskConsoleAddress,
    AskConsoleOutput,
    AskDiagnostics,
    AskStep,
    CacheImages,
    CallOff,
    CancelSnapshot,
    DestroyGuest,
    FinishMove,
    ForceCompleteLiveMigration,
    LiveMigrate,
    MoveAway,
    RebootGuest,
    SnapshotGuest,
    StopGuest,
    UploadSnapshot,
)

LOG = logging.getLogger(__name__)


class AgentPool(StrEnum):
    """Where an agent's work runs.

    ``INTERRUPT`` never waits for a hypervisor; ``MOVE`` copies memory and disks, or waits for guests to shut down; for
    ``QUESTION`` somebody waits; ``SNAPSHOT`` copies disks and uploads the copies, for which it may wait for its turn.
    """

    INTERRUPT = "interrupt"
    DELETE = "delete"
    ORDINARY = "ordinary"
    MOVE = "move"
    SNAPSHOT = "snapshot"
    QUESTION = "question"


class ConductorPool(StrEnum):
    """Where the conductor's work runs. ``BLOCKING`` may wait for seconds."""

    URGENT = "urgent"
    ORDINARY = "ordinary"
    BLOCKING = "blocking"


_POOLS: Mapping[type, AgentPool] = {
    AbortLiveMigration: AgentPool.INTERRUPT,
    AskCachedImages: AgentPool.QUESTION,
    AskConsoleAddress: AgentPool.QUESTION,
    AskConsoleOutput: AgentPool.QUESTION,
    AskDiagnostics: AgentPool.QUESTION,
    AskStep: AgentPool.INTERRUPT,
    CancelSnapshot: AgentPool.INTERRUPT,
    ForceCompleteLiveMigration: AgentPool.INTERRUPT,
    CallOff: AgentPool.DELETE,
    DestroyGuest: AgentPool.DELETE,
    MoveAway: AgentPool.MOVE,
    FinishMove: AgentPool.MOVE,
    LiveMigrate: AgentPool.MOVE,
    CacheImages: AgentPool.SNAPSHOT,
    SnapshotGuest: AgentPool.SNAPSHOT,
    UploadSnapshot: AgentPool.SNAPSHOT,
    RebootGuest: AgentPool.MOVE,
    StopGuest: AgentPool.MOVE,
}
L = TypeVar("L", bound=StrEnum)


def pool_of(message: AgentMessage) -> AgentPool:
    """Return the pool in which an agent handles a message."""
    return _POOLS.get(type(message), AgentPool.ORDINARY)


class ThreadPools(Generic[L]):
    """A pool of threads for each pool.

    ``threads``: how many there may be, made when they are needed; the pools are closed in this order.
    """

    def __init__(self, name: str, threads: Mapping[L, int]) -> None:
        self._pools = {
            pool: ThreadPoolExecutor(count, thread_name_prefix=f"{name}-{pool}") for pool, count in threads.items()
        }
        #: Work that no thread has begun: appending and taking away need no lock.
        self._waiting: dict[L, deque[Callable[[], None]]] = {pool: deque() for pool in threads}

    def run(self, pool: L, work: Callable[[], None]) -> None:
        waiting = self._waiting[pool]
        waiting.append(work)
        self._pools[pool].submit(_run_next, waiting)

    @property
    def waiting(self) -> Mapping[L, int]:
        """How much work of each pool no thread has begun."""
        return {pool: len(waiting) for pool, waiting in self._waiting.items()}

    def close(self) -> None:
        """Drop what waits, and wait for what runs."""
        for pool in self._pools.values():
            pool.shutdown(wait=True, cancel_futures=True)


def _run_next(waiting: deque[Callable[[], None]]) -> None:
    """Run what waits longest at the border of a message: what it raises is logged, never lost in a pool."""
    try:
        waiting.popleft()()
    except Exception:
        LOG.exception("A message could not be handled")
