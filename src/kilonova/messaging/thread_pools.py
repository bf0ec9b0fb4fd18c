# SPDX-License-Identifier: Apache-2.0
"""Independent thread pools, so that slow work of one pool never delays the work of another."""

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
    """Thread pools of an agent.

    ``INTERRUPT``: messages that are handled without waiting for the hypervisor. ``MOVE``: orders that copy memory and
    disks, or wait for guests to shut down. ``QUESTION``: queries whose caller waits for the answer. ``SNAPSHOT``:
    orders that copy, upload or fetch images.
    """

    INTERRUPT = "interrupt"
    DELETE = "delete"
    ORDINARY = "ordinary"
    MOVE = "move"
    SNAPSHOT = "snapshot"
    QUESTION = "question"


class ConductorPool(StrEnum):
    """Thread pools of the conductor. ``BLOCKING``: work that may block for seconds."""

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
    """Return the thread pool in which an agent handles a message."""
    return _POOLS.get(type(message), AgentPool.ORDINARY)


class ThreadPools(Generic[L]):
    """A thread pool for each member of an enum.

    ``threads``: pool → maximum number of threads, started on demand. The pools are closed in the order of ``threads``.
    """

    def __init__(self, name: str, threads: Mapping[L, int]) -> None:
        self._pools = {
            pool: ThreadPoolExecutor(count, thread_name_prefix=f"{name}-{pool}") for pool, count in threads.items()
        }
        #: Queued work of each pool; appending to a deque and popping from it need no lock.
        self._waiting: dict[L, deque[Callable[[], None]]] = {pool: deque() for pool in threads}

    def run(self, pool: L, work: Callable[[], None]) -> None:
        waiting = self._waiting[pool]
        waiting.append(work)
        self._pools[pool].submit(_run_next, waiting)

    @property
    def waiting(self) -> Mapping[L, int]:
        """Number of queued tasks of each pool."""
        return {pool: len(waiting) for pool, waiting in self._waiting.items()}

    def close(self) -> None:
        """Drop the queued work, and wait for the running work."""
        for pool in self._pools.values():
            pool.shutdown(wait=True, cancel_futures=True)


def _run_next(waiting: deque[Callable[[], None]]) -> None:
    """Run the oldest queued work; log an exception that it raises, because the executor would discard it."""
    try:
        waiting.popleft()()
    except Exception:
        LOG.exception("The handling of a message failed")
