# SPDX-License-Identifier: Apache-2.0
"""Routes below /operator/v1/plans: save plans of moves, apply them, follow their progress, pause, resume, cancel them.

The control process computes the moves itself: a client cannot save other moves.
"""

from collections.abc import Callable, Sequence
from typing import Any

from kilonova.api.compute.links import next_link
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes, integer_param
from kilonova.api.operator.bodies.plans import AskedDrain
from kilonova.api.operator.drain import planned_drain
from kilonova.api.operator.known_names import compute_services
from kilonova.api.operator.paging import flag
from kilonova.api.operator.saved_plan_views import plan_detail, plan_summary
from kilonova.api.operator.schemas import saved_plans as schemas
from kilonova.api.operator.schemas.parameters import NO_QUERY
from kilonova.api.policy import ADMIN, rule
from kilonova.api.typed_body import read_typed
from kilonova.api.validation import invalid_field, invalid_parameter
from kilonova.claims.stored_plans import drain_parameters, evacuations_of, moves_of, rest_of_result, stays_of
from kilonova.db import jobs, mirror_source, placed_servers, plan_moves, plans
from kilonova.db.plan_moves import NO_MOVES, NewMove
from kilonova.db.plans import NewPlan
from kilonova.errors import NotFound
from kilonova.identifiers import new_uuid
from kilonova.model.job import JobState
from kilonova.model.saved_plan import PlanKind, PlanState

_ALL, _ONE = "/operator/v1/plans", "/operator/v1/plans/{uuid}"
RULES = (
    rule("kilonova:plans:create", ADMIN, "Save a plan of moves", ("POST", _ALL)),
    rule("kilonova:evacuate", ADMIN, "Plan the evacuation of hosts", ("POST", _ALL)),
    rule("kilonova:plans:list", ADMIN, "List saved plans", ("GET", _ALL)),
    rule("kilonova:plans:show", ADMIN, "Show the moves and the progress of a plan", ("GET", _ONE)),
    rule("kilonova:plans:delete", ADMIN, "Delete a plan", ("DELETE", _ONE)),
    rule("kilonova:plans:apply", ADMIN, "Apply a plan", ("POST", f"{_ONE}/apply")),
    rule("kilonova:plans:pause", ADMIN, "Pause a plan", ("POST", f"{_ONE}/pause")),
    rule("kilonova:plans:resume", ADMIN, "Resume a paused plan", ("POST", f"{_ONE}/resume")),
    rule("kilonova:plans:cancel", ADMIN, "Cancel a plan", ("POST", f"{_ONE}/cancel")),
)
_PAGE = 100


def save_plan(ctx: Context, request: Request) -> Reply:
    """POST /v1/plans.  Plans a drain or an evacuation, or takes the result of a job of the kind rebalance.

    Errors: 400 naming the field; 409 if there are too many plans.
    """
    ctx.authorize("kilonova:plans:create")
    body = request.body
    if "drain" in body:
        ctx.authorize("kilonova:drain")
        plan, moves = _drain(ctx, read_typed(AskedDrain, body["drain"]))
    elif "evacuate" in body:
        ctx.authorize("kilonova:evacuate")
        plan, moves = _evacuation(ctx, body["evacuate"]["hosts"])
    else:
        ctx.authorize("kilonova:rebalance")
        plan, moves = _result_of_job(ctx, body["job"])
    ctx.write(lambda tx: plans.add(tx, plan, moves))
    return _reply(ctx, plan.uuid, 201)


def _drain(ctx: Context, body: AskedDrain) -> tuple[NewPlan, Sequence[NewMove]]:
    found = planned_drain(ctx, body)
    cloud = found.taken.cloud
    plan = _new(ctx, PlanKind.DRAIN, drain_parameters(found.asked), stays_of(cloud, found.plan), found.taken.seq)
    return plan, moves_of(cloud, found.plan)


def _evacuation(ctx: Context, names: Sequence[str]) -> tuple[NewPlan, Sequence[NewMove]]:
    with ctx.read() as connection:
        for number, service in enumerate(compute_services(connection, names)):
            if service.is_up:
                told = f"The compute service of host {service.host} is up; drain the host."
                raise invalid_field(f"hosts[{number}]", told)
        hosts = set(names)
        seq = mirror_source.seq_in(connection)
        moves, stays = evacuations_of(placed_servers.on_hosts(connection, hosts))
    return _new(ctx, PlanKind.EVACUATE, {"hosts": sorted(hosts)}, stays, seq), moves


def _result_of_job(ctx: Context, uuid: str) -> tuple[NewPlan, Sequence[NewMove]]:
    with ctx.read() as connection:
        try:
            job, packed = jobs.get(connection, uuid), jobs.result_of(connection, uuid)
            prepared = jobs.prepared_of(connection, uuid)
        except NotFound as error:
            raise invalid_field("job", error.message) from None
    if job.kind != PlanKind.REBALANCE.value or job.state is not JobState.DONE or packed is None:
        raise invalid_field("job", f"Job {uuid} is no job of the kind rebalance with a result.")
    result = rest_of_result(packed)
    return _new(ctx, PlanKind.REBALANCE, prepared, result.stays, result.seq), result.moves


def _new(ctx: Context, kind: PlanKind, request: Any, stays: Sequence[Any], seq: int) -> NewPlan:
    return NewPlan(
        uuid=new_uuid(),
        kind=kind,
        project_id=ctx.project_id,
        user_id=ctx.user_id,
        request_id=ctx.request_id,
        request=request,
        stays=stays,
        seq=seq,
    )


def list_plans(ctx: Context, request: Request) -> Reply:
    """GET /v1/plans.  Newest first, without moves. Errors: 400 naming the parameter."""
    ctx.authorize("kilonova:plans:list")
    asked, state, marker = integer_param(request, "limit"), request.param("state"), request.param("marker")
    limit = min(_PAGE if asked is None else asked, ctx.backend.settings.api.max_limit)
    with ctx.read() as connection:
        try:
            rows = plans.list_page(
                connection, state=None if state is None else PlanState(state), limit=limit + 1, marker=marker
            )
        except NotFound as error:
            raise invalid_parameter("marker", marker, f"{error.message} Restart from the first page.") from None
        totals = plan_moves.totals(connection, [row.uuid for row in rows])
    body: dict[str, Any] = {"plans": [plan_summary(row, totals.get(row.uuid, NO_MOVES)) for row in rows[:limit]]}
    if limit and len(rows) > limit:
        body["plans_links"] = [next_link(request, rows[limit - 1].uuid)]
    return Reply(200, body)


def show_plan(ctx: Context, request: Request) -> Reply:
    """GET /v1/plans/{uuid}.  With ``moves=false``, without its moves. Errors: 404."""
    ctx.authorize("kilonova:plans:show")
    uuid = request.path["uuid"]
    if flag(request, "moves") is not False:
        return _reply(ctx, uuid, 200)
    with ctx.read() as connection:
        plan = plans.get(connection, uuid)
        return Reply(200, {"plan": plan_summary(plan, plan_moves.totals(connection, [uuid]).get(uuid, NO_MOVES))})


def delete_plan(ctx: Context, request: Request) -> Reply:
    """DELETE /v1/plans/{uuid}.  Errors: 404; 409 while the plan is being applied."""
    ctx.authorize("kilonova:plans:delete")
    ctx.write(lambda tx: plans.remove(tx, request.path["uuid"]))
    return Reply(204)


def _becomes(action: str, to: PlanState, told: str) -> Callable[[Context, Request], Reply]:
    """Return the handler of an action that gives a plan another state. ``told``: its description."""

    def act(ctx: Context, request: Request) -> Reply:
        ctx.authorize(f"kilonova:plans:{action}")
        ctx.write(lambda tx: plans.change_state(tx, request.path["uuid"], to))
        return _reply(ctx, request.path["uuid"], 202)

    act.__doc__ = f"POST /v1/plans/{{uuid}}/{action}.  {told} Errors: 404; 409 if its state does not allow this."
    return act


def cancel_plan(ctx: Context, request: Request) -> Reply:
    """POST /v1/plans/{uuid}/cancel.  Moves that have begun end; no other begins. Errors: 404; 409 if it has ended."""
    ctx.authorize("kilonova:plans:cancel")
    ctx.write(lambda tx: plans.cancel(tx, request.path["uuid"]))
    return _reply(ctx, request.path["uuid"], 202)


def _reply(ctx: Context, uuid: str, status: int) -> Reply:
    with ctx.read() as connection:
        plan = plans.get(connection, uuid)
        return Reply(status, {"plan": plan_detail(plan, plan_moves.of_plan(connection, uuid))})


def _action(handler: Callable[[Context, Request], Reply]) -> Endpoint:
    return Endpoint(handler, body=schemas.ACT, query=NO_QUERY)


ROUTES: Routes = {
    "/v1/plans": {
        "GET": Endpoint(list_plans, query=schemas.LIST),
        "POST": Endpoint(save_plan, body=schemas.NEW, query=NO_QUERY),
    },
    "/v1/plans/{uuid}": {
        "GET": Endpoint(show_plan, query=schemas.SHOW),
        "DELETE": Endpoint(delete_plan, query=NO_QUERY),
    },
    "/v1/plans/{uuid}/apply": {
        "POST": _action(_becomes("apply", PlanState.RUNNING, "Its moves begin, wave after wave."))
    },
    "/v1/plans/{uuid}/pause": {
        "POST": _action(_becomes("pause", PlanState.PAUSED, "Moves that have begun end; no other begins."))
    },
    "/v1/plans/{uuid}/resume": {"POST": _action(_becomes("resume", PlanState.RUNNING, "Its moves go on."))},
    "/v1/plans/{uuid}/cancel": {"POST": _action(cancel_plan)},
}
