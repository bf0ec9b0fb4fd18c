# SPDX-License-Identifier: Apache-2.0
"""Routes below /operator/v1/jobs: start long computations, follow their progress, read their results, cancel them."""

import zlib
from typing import Any

import orjson

from kilonova.api.compute.links import next_link
from kilonova.api.compute.times import whole_seconds
from kilonova.api.faults import HttpError
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes, integer_param
from kilonova.api.operator.job_kind import JobKind
from kilonova.api.operator.job_kinds import KINDS
from kilonova.api.operator.schemas import jobs as schemas
from kilonova.api.operator.schemas.parameters import NO_QUERY
from kilonova.api.policy import ADMIN, rule
from kilonova.api.validation import invalid_field, invalid_parameter
from kilonova.db import jobs
from kilonova.db.jobs import JobRow, NewJob
from kilonova.errors import InvalidRequest, NotFound
from kilonova.identifiers import new_uuid
from kilonova.model.job import JobState

_ONE = "/operator/v1/jobs/{uuid}"
RULES = (
    rule("kilonova:jobs:create", ADMIN, "Start a job", ("POST", "/operator/v1/jobs")),
    rule("kilonova:jobs:list", ADMIN, "List jobs", ("GET", "/operator/v1/jobs")),
    rule("kilonova:jobs:show", ADMIN, "Show the progress and the result of a job", ("GET", _ONE)),
    rule("kilonova:jobs:delete", ADMIN, "Cancel or remove a job", ("DELETE", _ONE)),
)
_PAGE = 100
_RETRY_AFTER_S = "10"
#: Maximum size of the prepared parameters in bytes of JSON; the database stores them in one statement.
_LONGEST_PREPARED = 8 * 1024 * 1024


def start_job(ctx: Context, request: Request) -> Reply:
    """POST /v1/jobs.  Errors: 400 naming the field; 429 if the limit of unfinished jobs is reached."""
    ctx.authorize("kilonova:jobs:create")
    kind, parameters = KINDS[request.body["kind"]], request.body.get("parameters", {})
    ctx.authorize(kind.rule)
    try:
        kind.parameters.check(parameters, request.version)
    except InvalidRequest as error:
        raise InvalidRequest(f"{error.message} (parameters of {kind.name})", **error.fields) from None
    return queued_job(ctx, kind, parameters, kind.prepare(ctx, parameters))


def queued_job(ctx: Context, kind: JobKind, parameters: Any, prepared: Any) -> Reply:
    """Queue a job, and return 202 with the job. ``prepared``: what ``kind.prepare`` has returned.

    Errors: 400 if the job is too large; 429 if the limit of unfinished jobs is reached.
    """
    if len(orjson.dumps(prepared)) > _LONGEST_PREPARED:
        raise invalid_field("parameters", "They describe more than one job can take; split them.")
    new = NewJob(
        uuid=new_uuid(),
        kind=kind.name,
        project_id=ctx.project_id,
        user_id=ctx.user_id,
        request_id=ctx.request_id,
        parameters=parameters,
        prepared=prepared,
    )
    limits = ctx.backend.settings.operator
    try:
        ctx.write(lambda tx: jobs.add(tx, new, most=limits.max_jobs, most_of_project=limits.max_jobs_per_project))
    except jobs.QueueFull as error:
        raise HttpError(429, error.message, Retry_After=_RETRY_AFTER_S) from None
    ctx.backend.wake_jobs()
    with ctx.read() as connection:
        return Reply(202, {"job": _view(jobs.get(connection, new.uuid))})


def list_jobs(ctx: Context, request: Request) -> Reply:
    """GET /v1/jobs.  Newest first, without results. Errors: 400 naming the parameter."""
    ctx.authorize("kilonova:jobs:list")
    asked, state = integer_param(request, "limit"), request.param("state")
    limit = min(_PAGE if asked is None else asked, ctx.backend.settings.api.max_limit)
    marker = request.param("marker")
    with ctx.read() as connection:
        try:
            rows = jobs.list_page(
                connection,
                kind=request.param("kind"),
                state=None if state is None else JobState(state),
                limit=limit + 1,
                marker=marker,
            )
        except NotFound as error:
            raise invalid_parameter("marker", marker, f"{error.message} Restart from the first page.") from None
    body: dict[str, Any] = {"jobs": [_view(row) for row in rows[:limit]]}
    if limit and len(rows) > limit:
        body["jobs_links"] = [next_link(request, rows[limit - 1].uuid)]
    return Reply(200, body)


def show_job(ctx: Context, request: Request) -> Reply:
    """GET /v1/jobs/{uuid}.  Errors: 404."""
    ctx.authorize("kilonova:jobs:show")
    uuid = request.path["uuid"]
    with ctx.read() as connection:
        row, packed = jobs.get(connection, uuid), jobs.result_of(connection, uuid)
    result = None if packed is None else orjson.Fragment(zlib.decompress(packed))
    return Reply(200, {"job": {**_view(row), "result": result}})


def delete_job(ctx: Context, request: Request) -> Reply:
    """DELETE /v1/jobs/{uuid}.  202 and the job, if it is cancelled; 204 if it had ended and is removed. Errors: 404."""
    ctx.authorize("kilonova:jobs:delete")
    row = ctx.write(lambda tx: jobs.cancel_or_remove(tx, request.path["uuid"]))
    if row is None:
        return Reply(204)
    ctx.backend.wake_jobs()
    return Reply(202, {"job": _view(row)})


def _view(row: JobRow) -> dict[str, Any]:
    return {
        "id": row.uuid,
        "kind": row.kind,
        "state": row.state.value,
        "parameters": row.parameters,
        "progress": row.progress,
        "message": row.message,
        "failure": row.failure,
        "cancelling": row.is_cancelled and not row.state.is_final,
        "attempt": row.attempt,
        "process": row.owner,
        "project_id": row.project_id,
        "user_id": row.user_id,
        "request_id": row.request_id,
        "created_at": whole_seconds(row.created_at),
        "started_at": whole_seconds(row.started_at),
        "finished_at": whole_seconds(row.finished_at),
    }


ROUTES: Routes = {
    "/v1/jobs": {
        "GET": Endpoint(list_jobs, query=schemas.job_list(KINDS)),
        "POST": Endpoint(start_job, body=schemas.new_job(KINDS), query=NO_QUERY),
    },
    "/v1/jobs/{uuid}": {
        "GET": Endpoint(show_job, query=NO_QUERY),
        "DELETE": Endpoint(delete_job, query=NO_QUERY),
    },
}
