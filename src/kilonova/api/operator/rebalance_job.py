# SPDX-License-Identifier: Apache-2.0
"""Jobs of the kind ``rebalance``: the moves towards an objective, in waves. Nothing is moved."""

from typing import Any

from kilonova.api.http import Context
from kilonova.api.operator.bodies.plans import AskedRebalance
from kilonova.api.operator.job_kind import JobKind
from kilonova.api.operator.known_names import aggregate_of
from kilonova.api.operator.plan_views import plan_view
from kilonova.api.operator.schemas.plans import REBALANCE
from kilonova.api.policy import ADMIN, rule
from kilonova.api.typed_body import read_typed
from kilonova.api.validation import invalid_field
from kilonova.claims.cloud_snapshot import loaded_cloud
from kilonova.conductor.jobs.job_context import JobContext
from kilonova.model.move_plan import Objective
from kilonova.planning.rebalance import RebalanceRequest, rebalance

RULES = (rule("kilonova:rebalance", ADMIN, "Plan moves that rebalance the cloud", ("POST", "/operator/v1/jobs")),)
_LOADED = 0.3


def prepare(ctx: Context, parameters: Any) -> Any:
    """Return the parameters with the id of the aggregate. Errors: 400 naming the field."""
    asked = read_typed(AskedRebalance, parameters)
    if asked.objective is Objective.LEVEL and asked.resource is None:
        raise invalid_field("resource", "The objective level needs a resource class.")
    found = None
    if asked.aggregate is not None:
        with ctx.read() as connection:
            found = aggregate_of(connection, asked.aggregate).id
    return {**parameters, "aggregate_id": found}


def run(context: JobContext, prepared: Any) -> Any:
    """Plan the moves on one snapshot."""
    context.progress(0.0, "loading the cloud")
    aggregate = prepared["aggregate_id"]
    asked = read_typed(AskedRebalance, {name: prepared[name] for name in prepared if name != "aggregate_id"})
    taken = loaded_cloud(context.cloud)
    wanted = RebalanceRequest(
        asked.objective,
        asked.resource or "",
        aggregate,
        asked.moves,
        asked.gib,
        asked.how,
        asked.limits.limits,
        asked.locked,
    )
    found = rebalance(taken.cloud, wanted, context.search(_LOADED, "searching for moves"))
    return {
        "seq": taken.seq,
        "objective": asked.objective.value,
        "before": found.before,
        "after": found.after,
        **plan_view(taken.cloud, found.plan, {}),
    }


KIND = JobKind(
    name="rebalance",
    title="Plan moves towards an objective: spread, level, pack or mend",
    parameters=REBALANCE,
    prepare=prepare,
    run=run,
    rule="kilonova:rebalance",
)
