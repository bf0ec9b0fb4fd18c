# SPDX-License-Identifier: Apache-2.0
"""Which tasks servers show while agents work on a step, written together and off the way of the work itself.

What is over before it was written costs no transaction: a quick reboot shows the task that it was asked with, and then
none.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any

from kilonova.conductor.workflow_engine.workflow import Run
from kilonova.db import instances
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.model.instance import TaskState
from kilonova.model.transitions import Transition

#: How long a task may be reached before its server shows it.
SHOWN_EVERY_S = 0.1


class TaskProgress:
    """``transition_of``: kind of workflow → its row of the table of states.

    ``is_awaited``: whether a workflow still waits for the present start of its step.
    Somebody has to call :meth:`write`.
    """

    def __init__(
        self,
        database: Database,
        transition_of: Callable[[str], Transition],
        is_awaited: Callable[[Run[Any]], bool],
    ) -> None:
        self._database = database
        self._is_awaited = is_awaited
        self._transition_of = transition_of
        self._lock = threading.Lock()
        #: Workflow → the newest task that an agent has reached for it.
        self._reached: dict[str, tuple[Run[Any], TaskState]] = {}

    def note(self, run: Run[Any], task: TaskState) -> None:
        """Note a task that was reached, without waiting. One that the action never shows is not noted."""
        shown = self._transition_of(run.row.kind).shown
        if task in shown:
            with self._lock:
                known = self._reached.get(run.row.uuid)
                if known is None or known[0].row.attempt < run.row.attempt or shown.index(known[1]) < shown.index(task):
                    self._reached[run.row.uuid] = run, task

    def write(self) -> None:
        """Have servers show what was noted since the last time, as far as their steps are not over."""
        with self._lock:
            noted, self._reached = self._reached, {}
        reached = [(run, task) for run, task in noted.values() if self._is_awaited(run)]
        if reached:
            self._database.write(lambda tx: self._show(tx, reached))

    def _show(self, tx: Transaction, reached: Iterable[tuple[Run[Any], TaskState]]) -> None:
        for run, task in reached:
            shown = self._transition_of(run.row.kind).shown
            before = frozenset(shown[: shown.index(task)])
            instances.show_task(tx, run.instance_uuid, before, task, workflow=run.row.uuid, attempt=run.row.attempt)
