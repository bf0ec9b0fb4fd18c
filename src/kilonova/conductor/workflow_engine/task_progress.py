# SPDX-License-Identifier: Apache-2.0
"""Task states that agents report during a step, written to the servers' records in batches by a periodic task.

A task state that is over before the next write is never written: a quick reboot shows only its first task state, then
none.
"""

import threading
from collections.abc import Callable, Iterable

from kilonova.conductor.workflow_engine.run import HasHost, Run
from kilonova.db import instances
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.model.instance import TaskState
from kilonova.model.transitions import Transition

#: Interval of the writes in seconds.
SHOWN_EVERY_S = 0.1


class TaskProgress:
    """Collects and writes task states. ``transition_of``: kind of workflow → its entry in the state table.

    ``is_awaited``: returns whether a workflow still waits for the present attempt at its step.
    The owner of this object must call :meth:`write` periodically.
    """

    def __init__(
        self,
        database: Database,
        transition_of: Callable[[str], Transition],
        is_awaited: Callable[[Run[HasHost]], bool],
    ) -> None:
        self._database = database
        self._is_awaited = is_awaited
        self._transition_of = transition_of
        self._lock = threading.Lock()
        #: Workflow uuid → the latest task state that its agent has reached.
        self._reached: dict[str, tuple[Run[HasHost], TaskState]] = {}

    def note(self, run: Run[HasHost], task: TaskState) -> None:
        """Record, without blocking, a task state that a step has reached; ignore states that the action never shows."""
        shown = self._transition_of(run.row.kind).shown
        if task in shown:
            with self._lock:
                known = self._reached.get(run.row.uuid)
                if known is None or known[0].row.attempt < run.row.attempt or shown.index(known[1]) < shown.index(task):
                    self._reached[run.row.uuid] = run, task

    def write(self) -> None:
        """Write the recorded task states to the servers whose steps still run."""
        with self._lock:
            noted, self._reached = self._reached, {}
        reached = [(run, task) for run, task in noted.values() if self._is_awaited(run)]
        if reached:
            self._database.write(lambda tx: self._show(tx, reached))

    def _show(self, tx: Transaction, reached: Iterable[tuple[Run[HasHost], TaskState]]) -> None:
        for run, task in reached:
            shown = self._transition_of(run.row.kind).shown
            before = frozenset(shown[: shown.index(task)])
            instances.show_task(tx, run.instance_uuid, before, task, workflow=run.row.uuid, attempt=run.row.attempt)
