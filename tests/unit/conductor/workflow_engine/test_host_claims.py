# SPDX-License-Identifier: Apache-2.0
"""What a claim commits for a workflow comes from the declaration of the workflow alone."""

from typing import Any

import pytest

from kilonova.claims.outside_driver import OutsideDriver
from kilonova.conductor.workflow_engine import step_outcome
from kilonova.conductor.workflow_engine.workflow import Workflow
from kilonova.conductor.workflows.build import BUILD, BuildFacts
from kilonova.conductor.workflows.evacuate import EVACUATE
from kilonova.conductor.workflows.live_migrate import LIVE_MIGRATE
from kilonova.conductor.workflows.moves import MoveFacts
from kilonova.conductor.workflows.resize import MIGRATE, RESIZE
from kilonova.conductor.workflows.unshelve import UNSHELVE, UnshelveFacts
from kilonova.db.workflows import WorkflowRow
from kilonova.model.instance import TaskState, VmState
from kilonova.scheduler.driver import Scheduler
from kilonova.scheduler.engine.engine import Engine
from support.cell import NewCell, host

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


class _First(Scheduler):
    """Sends all servers of a request to the first of two hosts that it may have."""

    def select_destinations(self, _context: Any, request_spec: Any, filter_properties: Any) -> Any:
        name = next(name for name in ("one", "two") if name not in (filter_properties["ignore_hosts"] or ()))
        return [{"host": name, "nodename": None, "limits": None}] * request_spec["num_instances"]


@pytest.mark.parametrize("outside", [True, False], ids=["driver", "own"])
def test_claims_that_wait_for_a_driver_are_made_on_threads_of_their_own(cell_of: NewCell, *, outside: bool) -> None:
    cell = cell_of(host("one"), host("two"), driver=OutsideDriver(_First(), Engine()) if outside else None)
    together = cell.boot(2)
    cell.bus.run()
    assert cell.check() == dict.fromkeys(together, "active")
    assert cell.bus.aside == (1 if outside else 0)  # one claim for both
    cell.migrate(together[0])
    cell.bus.run()
    assert cell.instance(together[0]).vm_state is VmState.RESIZED
    assert cell.bus.aside == (2 if outside else 0)
