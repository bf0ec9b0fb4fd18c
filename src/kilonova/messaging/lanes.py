# SPDX-License-Identifier: Apache-2.0
"""Threads in lanes: work of one lane never waits behind that of another, however long that takes."""

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


class AgentLane(StrEnum):
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


class ConductorLane(StrEnum):
    """Where the conductor's work runs. ``BLOCKING`` may wait for seconds."""

    URGENT = "urgent"
    ORDINARY = "ordinary"
    BLOCKING = "blocking"


_LANES: Mapping[type, AgentLane] = {
    AbortLiveMigration: AgentLane.INTERRUPT,
    AskCachedImages: AgentLane.QUESTION,
    AskConsoleAddress: AgentLane.QUESTION,
    AskConsoleOutput: AgentLane.QUESTION,
    AskDiagnostics: AgentLane.QUESTION,
    AskStep: AgentLane.INTERRUPT,
    CancelSnapshot: AgentLane.INTERRUPT,
    ForceCompleteLiveMigration: AgentLane.INTERRUPT,
    CallOff: AgentLane.DELETE,
    DestroyGuest: AgentLane.DELETE,
    MoveAway: AgentLane.MOVE,
    FinishMove: AgentLane.MOVE,
    LiveMigrate: AgentLane.MOVE,
    CacheImages: AgentLane.SNAPSHOT,
    SnapshotGuest: AgentLane.SNAPSHOT,
    UploadSnapshot: AgentLane.SNAPSHOT,
    RebootGuest: AgentLane.MOVE,
    StopGuest: AgentLane.MOVE,
}
L = TypeVar("L", bound=StrEnum)


def lane_of(message: AgentMessage) -> AgentLane:
    """Return the lane in which an agent handles a message."""
    return _LANES.get(type(message), AgentLane.ORDINARY)


class Lanes(Generic[L]):
    """A pool of threads for each lane.

    ``threads``: how many there may be, made when they are needed; the lanes are closed in this order.
    """

    def __init__(self, name: str, threads: Mapping[L, int]) -> None:
        self._pools = {
            lane: ThreadPoolExecutor(count, thread_name_prefix=f"{name}-{lane}") for lane, count in threads.items()
        }
        #: Work that no thread has begun: appending and taking away need no lock.
        self._waiting: dict[L, deque[Callable[[], None]]] = {lane: deque() for lane in threads}

    def run(self, lane: L, work: Callable[[], None]) -> None:
        waiting = self._waiting[lane]
        waiting.append(work)
        self._pools[lane].submit(_run_next, waiting)

    @property
    def waiting(self) -> Mapping[L, int]:
        """How much work of each lane no thread has begun."""
        return {lane: len(waiting) for lane, waiting in self._waiting.items()}

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
