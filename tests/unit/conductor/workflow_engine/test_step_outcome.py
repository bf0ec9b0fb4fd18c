# SPDX-License-Identifier: Apache-2.0
"""The row, task state and event that follow the step of a workflow."""

from typing import Any

import pytest

from kilonova.conductor.workflow_engine import step_outcome
from kilonova.conductor.workflow_engine.workflow import Workflow
from kilonova.conductor.workflows.build import BUILD, BuildFacts
from kilonova.conductor.workflows.evacuate import EVACUATE
from kilonova.conductor.workflows.live_migrate import LIVE_MIGRATE
from kilonova.conductor.workflows.moves import MoveFacts
from kilonova.conductor.workflows.resize import MIGRATE, RESIZE
from kilonova.conductor.workflows.unshelve import UNSHELVE, UnshelveFacts
from kilonova.db.workflows import WorkflowRow
from kilonova.model.instance import TaskState

_MOVE = MoveFacts("migration", "source")


_MOVED = MoveFacts("migration", "source", "there")


@pytest.mark.parametrize(
    ("workflow", "before", "after", "step", "shows", "event", "host_of_event"),
    [
        (BUILD, BuildFacts(), BuildFacts("there"), "spawn", TaskState.SPAWNING, None, None),
        (RESIZE, _MOVE, _MOVED, "move-away", TaskState.RESIZE_MIGRATING, "conductor_migrate_server", "source"),
        (MIGRATE, _MOVE, _MOVED, "move-away", TaskState.RESIZE_MIGRATING, "conductor_migrate_server", "source"),
        (LIVE_MIGRATE, _MOVE, _MOVED, "prepare", None, "conductor_live_migrate_instance", "source"),
        (EVACUATE, _MOVE, _MOVED, "leave", None, "rebuild_server", "source"),
        (
            UNSHELVE,
            UnshelveFacts(),
            UnshelveFacts(host="there"),
            "spawn",
            TaskState.SPAWNING,
            "conductor_unshelve_instance",
            None,
        ),
    ],
    ids=lambda value: value.kind if isinstance(value, Workflow) else "",
)
def test_what_a_claim_commits_is_declared(
    workflow: Workflow[Any],
    before: Any,
    after: Any,
    step: str,
    shows: TaskState | None,
    event: str | None,
    host_of_event: str | None,
) -> None:
    row = workflow.first_row(
        WorkflowRow(uuid="w", kind=workflow.kind, instance_uuid="i", reservation_id="", request_id="req-1", step=""),
        before,
    )
    run = workflow.run(row)
    claiming = workflow.at(run, "claim", undoing=False)
    committed = step_outcome.at_host(workflow, workflow.run(claiming), after)
    assert (committed.row.step, committed.row.version, committed.row.attempt) == (step, row.version + 2, 2)
    assert workflow.run(committed.row).facts == after
    assert committed.shows is shows
    ended = committed.ended
    assert (None if ended is None else ended.event) == event
    assert ended is None or (ended.host, ended.result) == (host_of_event, "Success")


def test_an_interrupted_workflow_shows_no_task_any_more() -> None:
    row = BUILD.first_row(
        WorkflowRow(
            uuid="w",
            kind="build",
            instance_uuid="i",
            reservation_id="",
            request_id="req-1",
            step="",
            interrupt="timeout",
        ),
        BuildFacts(),
    )
    assert step_outcome.at_host(BUILD, BUILD.run(row), BuildFacts("there")).shows is None
