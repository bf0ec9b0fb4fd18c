# SPDX-License-Identifier: Apache-2.0
"""Snapshots that one host takes and uploads: their concurrency limit and their cancellation."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from cachetools import LRUCache

from kilonova.compute.virt.base import AgentStopsError
from kilonova.errors import SnapshotCancelled
from kilonova.messaging.messages import CancelSnapshot, SnapshotGuest, UploadSnapshot

#: Number of workflows remembered as cancelled, in case the order for a snapshot arrives after the cancellation.
_CANCELLED = 1_000


class _Work:
    """A snapshot or upload that is queued or running. Implements ``SnapshotMonitor``."""

    def __init__(self) -> None:
        self.is_cancelled = self.is_stopping = False

    def check(self) -> None:
        if self.is_stopping:
            raise AgentStopsError
        if self.is_cancelled:
            raise SnapshotCancelled


class Snapshots:
    """The snapshots and uploads of one host. ``limit``: how many run at once; 0 for no limit."""

    def __init__(self, limit: int = 0) -> None:
        self._limit = limit
        self._turns = threading.Condition()
        self._running = 0
        self._work: dict[str, _Work] = {}
        self._cancelled: LRUCache[str, None] = LRUCache(_CANCELLED)
        self._is_stopping = False

    @contextmanager
    def run(self, order: SnapshotGuest | UploadSnapshot) -> Iterator[_Work]:
        """Wait for a slot, then run an order within the block. Raises: SnapshotCancelled, AgentStopsError."""
        workflow, work = order.step.workflow, _Work()
        with self._turns:
            work.is_cancelled, work.is_stopping = workflow in self._cancelled, self._is_stopping
            self._work[workflow] = work
        try:
            self._begin(work)
            try:
                yield work
            finally:
                with self._turns:
                    self._running -= 1
                    self._turns.notify_all()
        finally:
            with self._turns:
                del self._work[workflow]

    def cancel(self, message: CancelSnapshot) -> None:
        """Cancel the snapshot of a workflow, or prevent the snapshot if its order has not arrived yet."""
        with self._turns:
            self._cancelled[message.step.workflow] = None
            work = self._work.get(message.step.workflow)
            if work is not None:
                work.is_cancelled = True
                self._turns.notify_all()

    def stop(self) -> None:
        """Abandon all running snapshots and start no more."""
        with self._turns:
            self._is_stopping = True
            for work in self._work.values():
                work.is_stopping = True
            self._turns.notify_all()

    def _begin(self, work: _Work) -> None:
        with self._turns:
            while True:
                work.check()
                if not self._limit or self._running < self._limit:
                    self._running += 1
                    return
                self._turns.wait()
