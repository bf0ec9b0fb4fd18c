# SPDX-License-Identifier: Apache-2.0
"""Routes below /operator/v1/workflows: list and show running workflows, retry or abandon those that do not continue."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy.engine import Connection

from kilonova.api.compute.links import next_link
from kilonova.api.compute.times import whole_seconds
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes, integer_param
from kilonova.api.operator.known_names import require_server
from kilonova.api.operator.paging import flag
from kilonova.api.operator.schemas import workflows as schemas
from kilonova.api.operator.schemas.parameters import NO_QUERY
from kilonova.api.policy import ADMIN, rule
from kilonova.api.validation import invalid_parameter
from kilonova.conductor.workflow_engine.run import failure_of
from kilonova.conductor.workflow_engine.stuck_workflows import AbandonedWorkflow
from kilonova.conductor.workflow_engine.workflow import Workflow
from kilonova.conductor.workflows.registry import REGISTRY
from kilonova.db import host_agents, workflows
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import NotFound

_ONE = "/operator/v1/workflows/{uuid}"
RULES = (
    rule("kilonova:workflows:list", ADMIN, "List running workflows", ("GET", "/operator/v1/workflows")),
    rule("kilonova:workflows:show", ADMIN, "Show the progress of a workflow", ("GET", _ONE)),
    rule("kilonova:workflows:retry", ADMIN, "Retry a stuck workflow", ("POST", f"{_ONE}/retry")),
    rule("kilonova:workflows:abandon", ADMIN, "Abandon a stuck or waiting workflow", ("POST", f"{_ONE}/abandon")),
)
_PAGE = 100


def list_workflows(ctx: Context, request: Request) -> Reply:
    """GET /v1/workflows.  Errors: 400 naming the parameter, also for the marker of a finished workflow."""
    ctx.authorize("kilonova:workflows:list")
    asked = integer_param(request, "limit")
    limit = min(_PAGE if asked is None else asked, ctx.backend.settings.api.max_limit)
    marker, server = request.param("marker"), request.param("server")
    with ctx.read() as connection:
        try:
            rows = workflows.list_page(
                connection,
                kind=request.param("kind"),
                stuck=flag(request, "stuck"),
                waiting=flag(request, "waiting"),
                instance_uuid=server,
                limit=limit + 1,
                marker=marker,
            )
        except NotFound as error:
            raise invalid_parameter("marker", marker, f"{error.message} Restart from the first page.") from None
        if not rows:
            require_server(connection, "server", server)
        views = _views(ctx, connection, rows[:limit])
    body: dict[str, Any] = {"workflows": views}
    if views and len(rows) > limit:
        body["workflows_links"] = [next_link(request, rows[limit - 1].uuid)]
    return Reply(200, body)


def show_workflow(ctx: Context, request: Request) -> Reply:
    """GET /v1/workflows/{uuid}.  Errors: 404, also for a finished workflow."""
    ctx.authorize("kilonova:workflows:show")
    uuid = request.path["uuid"]
    with ctx.read() as connection:
        row = workflows.get(connection, uuid)
        if row is None:
            raise NotFound(f"Workflow {uuid} could not be found.")
        return Reply(200, {"workflow": _detail(ctx, connection, row)})


def retry_workflow(ctx: Context, request: Request) -> Reply:
    """POST /v1/workflows/{uuid}/retry.  Errors: 404; 409 if the workflow is not stuck."""
    ctx.authorize("kilonova:workflows:retry")
    row = ctx.backend.conductor.stuck.retry(request.path["uuid"], ctx.requester)
    with ctx.read() as connection:
        return Reply(202, {"workflow": _detail(ctx, connection, row)})


def abandon_workflow(ctx: Context, request: Request) -> Reply:
    """POST /v1/workflows/{uuid}/abandon.  Errors: 404; 409 unless it is stuck or waits for an absent host."""
    ctx.authorize("kilonova:workflows:abandon")
    row, left = ctx.backend.conductor.stuck.abandon(request.path["uuid"], ctx.requester)
    return Reply(200, {"abandoned": {"id": row.uuid, "kind": row.kind, "server_id": row.instance_uuid, **_left(left)}})


def _left(left: AbandonedWorkflow) -> dict[str, Any]:
    migration = left.migration
    return {
        "hosts": list(left.hosts),
        "migration": None
        if migration is None
        else {"id": migration.uuid, "type": migration.migration_type.value, "status": migration.status.value},
        "remedy": "Delete the server: that destroys its guests on these hosts and releases everything that it holds.",
    }


# --- views ------------------------------------------------------------------------------------------------------------


def _detail(ctx: Context, connection: Connection, row: WorkflowRow) -> dict[str, Any]:
    (view,) = _views(ctx, connection, [row])
    return {**view, "steps": _steps(row)}


def _views(ctx: Context, connection: Connection, rows: Sequence[WorkflowRow]) -> list[dict[str, Any]]:
    now = ctx.now()
    living = host_agents.living(connection, now)
    return [_view(row, now, is_alive=row.owner in living) for row in rows]


def _view(row: WorkflowRow, now: datetime, *, is_alive: bool) -> dict[str, Any]:
    failure = failure_of(row)
    return {
        "id": row.uuid,
        "kind": row.kind,
        "server_id": row.instance_uuid or None,
        "request_id": row.request_id,
        "batch_id": row.batch_uuid,
        "step": row.step,
        "state": workflows.state_of(row),
        "undoing": row.undoing,
        "attempt": row.attempt,
        "tries": row.tries,
        "interrupt": row.interrupt,
        "awaited_host": row.awaited_host,
        "awaited_since": whole_seconds(row.awaited_since),
        "failure": None
        if failure is None
        else {
            "step": failure.step or None,
            "message": failure.message,
            "details": failure.details,
            "host": failure.host,
            "stuck_because": failure.stuck_because or None,
        },
        "process": {"id": row.owner, "alive": is_alive},
        "created_at": whole_seconds(row.created_at),
        "since": whole_seconds(row.since),
        "age_seconds": 0 if row.created_at is None else max(0, int((now - row.created_at).total_seconds())),
    }


def _steps(row: WorkflowRow) -> list[dict[str, Any]]:
    """Return name and state of each step, or nothing if this release does not know the workflow's kind or step."""
    workflow = REGISTRY.get(row.kind)
    if workflow is None or not workflow.has(row.step):
        return []
    return [
        {
            "name": step.name,
            "state": _state_of_step(workflow, row, step.name),
            "can_be_undone": workflow.can_walk_back(step.name),
        }
        for step in workflow.steps_of(row)
    ]


def _state_of_step(workflow: Workflow[Any], row: WorkflowRow, step: str) -> str:
    index, present = workflow.index(step), workflow.index(row.step)
    if index < present:
        return "done"
    if row.waiting:
        return "to come"
    if index == present:
        return "being undone" if row.undoing else "under way"
    failure = failure_of(row)
    if not row.undoing or failure is None:
        return "to come"
    failed_at = workflow.index(failure.step) if workflow.has(failure.step) else present
    return "undone" if index <= failed_at else "to come"


ROUTES: Routes = {
    "/v1/workflows": {"GET": Endpoint(list_workflows, query=schemas.LIST)},
    "/v1/workflows/{uuid}": {"GET": Endpoint(show_workflow, query=NO_QUERY)},
    "/v1/workflows/{uuid}/retry": {"POST": Endpoint(retry_workflow, body=schemas.ACT, query=NO_QUERY)},
    "/v1/workflows/{uuid}/abandon": {"POST": Endpoint(abandon_workflow, body=schemas.ACT, query=NO_QUERY)},
}
