# SPDX-License-Identifier: Apache-2.0
"""In-memory state of the workflows that a process runs, with a queue of work for each workflow."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any

from kilonova.conductor.workflow_engine.facts import UnknownFactsError
from kilonova.conductor.workflow_engine.run import HasHost, Run
from kilonova.conductor.workflow_engine.workflow import Workflow
from kilonova.db.workflows import WorkflowRow
from kilonova.records import replace

LOG = logging.getLogger(__name__)


class Runs:
    """The last known row and facts of each workflow that this process runs, by workflow UUID. Thread-safe.

    ``registry``: kind → workflow. ``on_broken``: called with the uuid of a workflow whose queued work raised an error.
    """

    def __init__(self, registry: Mapping[str, Workflow[Any]], on_broken: Callable[[str], None]) -> None:
        self._registry = registry
        self._on_broken = on_broken
        self._lock = threading.Lock()
        self._runs: dict[str, Run[HasHost]] = {}
        #: Workflow uuid → queue of work for it. The thread that adds the first item runs the queue until it is empty.
        self._queues: dict[str, deque[Callable[[], None]]] = {}

    @property
    def uuids(self) -> frozenset[str]:
        with self._lock:
            return frozenset(self._runs)

    def get(self, uuid: str) -> Run[HasHost] | None:
        with self._lock:
            return self._runs.get(uuid)

    def remember(self, row: WorkflowRow, memo: Any = None, *, facts: HasHost | None = None) -> Run[HasHost] | None:
        """Keep ``row`` in memory unless a newer row is known; return the run of ``row``, or None if unreadable.

        ``facts``: newer facts than those of the row; None if there are none.
        """
        run = self._read(row, memo)
        if run is None:
            return None
        if facts is not None:
            run = replace(run, facts=facts)
        with self._lock:
            known = self._runs.get(row.uuid)
            if known is not None and (memo is None or known.taken_over):
                run = replace(run, memo=known.memo if memo is None else memo, taken_over=known.taken_over)
            if known is None or known.row.version <= row.version:
                self._runs[row.uuid] = run
        return run

    def _read(self, row: WorkflowRow, memo: Any) -> Run[HasHost] | None:
        workflow = self._registry.get(row.kind)
        reason = "its kind is unknown" if workflow is None else "its step is unknown"
        if workflow is not None and workflow.has(row.step):
            try:
                return workflow.run(row, memo)
            except UnknownFactsError as error:
                reason = str(error)
        LOG.error(
            "Workflow %s (%s at step %s) is of another release and is not run: %s", row.uuid, row.kind, row.step, reason
        )
        return None

    def replace(self, run: Run[HasHost]) -> bool:
        """Keep new facts of a workflow in memory; if the version of its row has changed, only return False."""
        with self._lock:
            known = self._runs.get(run.row.uuid)
            if known is None or known.row.version != run.row.version:
                return False
            self._runs[run.row.uuid] = run
            return True

    def put(self, run: Run[HasHost]) -> None:
        """Keep a run in memory if its row is newer than the known row of the workflow."""
        with self._lock:
            known = self._runs.get(run.row.uuid)
            if known is None or known.row.version < run.row.version:
                self._runs[run.row.uuid] = run

    def awaiting(self, hosts: Collection[str]) -> tuple[str, ...]:
        """Return the UUIDs of the workflows that wait for one of these absent hosts."""
        with self._lock:
            return tuple(uuid for uuid, run in self._runs.items() if run.row.awaited_host in hosts)

    def forget(self, run: Run[HasHost]) -> bool:
        """Remove an ended workflow from memory; if a newer version of the workflow is known, only return False."""
        with self._lock:
            known = self._runs.get(run.row.uuid)
            if known is not None and known.row.version > run.row.version:
                return False
            self._runs.pop(run.row.uuid, None)
            return True

    def clear(self) -> None:
        with self._lock:
            self._runs.clear()

    def post(self, uuid: str, action: Callable[[], None]) -> None:
        """Run an action of a workflow on this thread, or queue it for a thread that already works on the workflow."""
        with self._lock:
            queue = self._queues.get(uuid)
            if queue is not None:
                queue.append(action)
                return
            queue = self._queues[uuid] = deque([action])
        while True:
            try:
                queue[0]()
            except Exception:
                LOG.exception("Workflow %s raised an unexpected error and is retried", uuid)
                self._on_broken(uuid)
            with self._lock:
                queue.popleft()
                if not queue:
                    del self._queues[uuid]
                    return
