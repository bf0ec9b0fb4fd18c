# SPDX-License-Identifier: Apache-2.0
"""A workflow whose server somebody else has taken, or which is gone: it is removed, and its action has failed."""

from dataclasses import replace
from typing import Any

from kilonova.conductor.workflow_engine.effects import Effect, Gone
from kilonova.conductor.workflow_engine.run import Run
from kilonova.db import instance_actions, workflows
from kilonova.db.database import Database
from kilonova.db.instance_actions import ERROR, NewAction
from kilonova.db.workflows import WorkflowRow
from support.workbench import Facts, Workbench, step, workflow


def begin_with_action(bench: Workbench, flow: Any) -> WorkflowRow:
    """Begin a workflow, and another request's action of the same server."""
    server = bench.server()
    actions = [NewAction(server, "reboot", request, "u", "p") for request in ("req-1", "req-other")]
    bench.database.write(lambda tx: instance_actions.begin(tx, actions))
    return bench.begin(flow, server=server)


def message_of(bench: Workbench, row: WorkflowRow, request_id: str) -> str | None:
    with bench.database.read() as connection:
        action = instance_actions.find(connection, row.instance_uuid, request_id)
    assert action is not None
    return action.message


def test_a_workflow_without_its_server_ends_and_its_action_has_failed(sqlite: Database) -> None:
    flow = workflow(step("act", lambda *_: Gone()))
    bench = Workbench(sqlite, [flow])
    row = begin_with_action(bench, flow)
    assert bench.row(row) is None
    assert message_of(bench, row, "req-1") == ERROR
    assert message_of(bench, row, "req-other") is None


def test_the_action_of_a_workflow_that_somebody_else_has_changed_goes_on(sqlite: Database) -> None:
    def change_and_go(_services: Any, run: Run[Facts]) -> Effect:
        changed = replace(run.row, version=run.row.version + 1)
        sqlite.write(lambda tx: workflows.change(tx, changed, heir=True))
        return Gone()

    flow = workflow(step("act", change_and_go))
    bench = Workbench(sqlite, [flow])
    row = begin_with_action(bench, flow)
    assert bench.row(row) is not None
    assert message_of(bench, row, "req-1") is None
