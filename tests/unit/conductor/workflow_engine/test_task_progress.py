# SPDX-License-Identifier: Apache-2.0
from types import SimpleNamespace
from typing import Any

import pytest

from kilonova.conductor.workflow_engine import task_progress
from kilonova.conductor.workflow_engine.task_progress import TaskProgress
from kilonova.model.instance import TaskState
from kilonova.model.transitions import TRANSITIONS

PENDING, STARTED = TaskState.REBOOT_PENDING, TaskState.REBOOT_STARTED


class Shown:
    """Records the task states that are written, and the number of transactions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.transactions = 0
        self.tasks: list[tuple[str, TaskState, int]] = []
        self.over: set[str] = set()
        monkeypatch.setattr(task_progress.instances, "show_task", self._show)
        database: Any = SimpleNamespace(write=self._write)
        self.progress = TaskProgress(database, TRANSITIONS.__getitem__, lambda run: run.row.uuid not in self.over)

    def _write(self, job: Any) -> None:
        self.transactions += 1
        job(None)

    def _show(
        self, _tx: Any, uuid: str, before: frozenset[Any], task: TaskState, *, workflow: str, attempt: int
    ) -> None:
        assert task not in before
        self.tasks.append((uuid, task, attempt))

    def note(self, task: TaskState, *, workflow: str = "w", attempt: int = 1) -> None:
        row = SimpleNamespace(uuid=workflow, kind="reboot", attempt=attempt)
        run: Any = SimpleNamespace(row=row, instance_uuid=f"server of {workflow}")
        self.progress.note(run, task)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    return Shown(monkeypatch)


def test_only_the_newest_task_of_each_server_is_written_and_all_in_one_transaction(shown: Shown) -> None:
    shown.note(STARTED)
    shown.note(PENDING)  # arrives late
    shown.note(PENDING, workflow="v")
    shown.progress.write()
    assert sorted(shown.tasks) == [("server of v", PENDING, 1), ("server of w", STARTED, 1)]
    assert shown.transactions == 1
    shown.progress.write()
    assert shown.transactions == 1, "nothing is left to write"


def test_a_later_attempt_replaces_the_tasks_of_an_earlier_one(shown: Shown) -> None:
    shown.note(STARTED, attempt=1)
    shown.note(PENDING, attempt=2)
    shown.progress.write()
    assert shown.tasks == [("server of w", PENDING, 2)]


def test_a_step_that_is_over_and_a_task_of_another_action_cost_no_transaction(shown: Shown) -> None:
    shown.note(STARTED)
    shown.over.add("w")
    shown.note(TaskState.SPAWNING, workflow="v")
    shown.progress.write()
    assert (shown.tasks, shown.transactions) == ([], 0)
