# SPDX-License-Identifier: Apache-2.0
"""Running live migrations of one host, and the requests to abort them or to force their completion."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from time import monotonic

from cachetools import LRUCache

from kilonova.compute.virt.abilities import CopyProgress
from kilonova.compute.virt.base import AgentStopsError
from kilonova.errors import MigrationAborted
from kilonova.messaging.messages import (
    AbortLiveMigration,
    ForceCompleteLiveMigration,
    LiveMigrate,
    MigrationProgress,
)

_TOLD_EVERY_S = 0.9
#: Number of aborted workflows that are remembered, since the order to migrate may arrive after the abort.
_ABORTED = 1_000


class Monitor:
    """Passes requests for an abort or completion to one live migration, and the progress of the migration to ``tell``.

    Implements ``MigrationMonitor``.
    """

    def __init__(self, workflow: str, tell: Callable[[CopyProgress], None]) -> None:
        self.workflow = workflow
        self._tell = tell
        self._told_at = float("-inf")
        self._is_asked = threading.Event()
        self._is_aborted = self._is_forced = self._is_stopping = False

    @property
    def abort_requested(self) -> bool:
        return self._is_aborted

    @property
    def completion_forced(self) -> bool:
        return self._is_forced

    def report(self, progress: CopyProgress) -> None:
        now = monotonic()
        if now - self._told_at >= _TOLD_EVERY_S:
            self._told_at = now
            self._tell(progress)

    def wait(self, seconds: float) -> None:
        self._is_asked.wait(seconds)
        if self._is_stopping:
            raise AgentStopsError

    def abort(self) -> None:
        self._is_aborted = True
        self._is_asked.set()

    def force_complete(self) -> None:
        self._is_forced = True
        self._is_asked.set()

    def stop(self) -> None:
        self._is_stopping = True
        self._is_asked.set()


class LiveMigrations:
    """The running live migrations of one host, at most one for each instance.

    ``tell``: sends the progress to the control process.
    """

    def __init__(self, host: str, tell: Callable[[MigrationProgress], None]) -> None:
        self._host = host
        self._tell = tell
        self._lock = threading.Lock()
        self._running: dict[str, Monitor] = {}
        self._aborted: LRUCache[str, None] = LRUCache(_ABORTED)
        self._is_stopping = False

    @contextmanager
    def run(self, message: LiveMigrate) -> Iterator[Monitor]:
        """Register a live migration that runs within the block, and yield its monitor.

        Raises: MigrationAborted if the request to abort it arrived before this call; AgentStopsError.
        """

        def tell(progress: CopyProgress) -> None:
            self._tell(MigrationProgress(message.step, self._host, message.instance_uuid, **asdict(progress)))

        monitor = Monitor(message.step.workflow, tell)
        with self._lock:
            if message.step.workflow in self._aborted:
                raise MigrationAborted
            if self._is_stopping:
                raise AgentStopsError
            self._running[message.instance_uuid] = monitor
        try:
            yield monitor
        finally:
            with self._lock:
                del self._running[message.instance_uuid]

    def abort(self, message: AbortLiveMigration) -> None:
        """Abort the live migration of a workflow, or prevent the migration if it has not begun."""
        with self._lock:
            self._aborted[message.step.workflow] = None
            monitor = self._running.get(message.instance_uuid)
            if monitor is not None and monitor.workflow == message.step.workflow:
                monitor.abort()

    def force_complete(self, message: ForceCompleteLiveMigration) -> None:
        """Force the running live migration of an instance, if any, to complete."""
        with self._lock:
            monitor = self._running.get(message.instance_uuid)
            if monitor is not None:
                monitor.force_complete()

    def stop(self) -> None:
        """Abandon all running migrations and start no more."""
        with self._lock:
            self._is_stopping = True
            for monitor in self._running.values():
                monitor.stop()
