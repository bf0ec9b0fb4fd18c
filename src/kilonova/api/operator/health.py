# SPDX-License-Identifier: Apache-2.0
"""GET /operator/v1/health: what ``/healthcheck`` only says yes or no about, of the process that answers."""

import kilonova
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.operator.schemas.parameters import NO_QUERY
from kilonova.api.policy import ADMIN, rule
from kilonova.db import schema

RULES = (rule("kilonova:health:show", ADMIN, "See how a control process is", ("GET", "/operator/v1/health")),)


def show_health(ctx: Context, request: Request) -> Reply:
    """GET /v1/health: 200, also when something is wrong."""
    del request
    ctx.authorize("kilonova:health:show")
    backend = ctx.backend
    problems = backend.health.problems()
    reason = backend.writability.reason()
    body = {
        "healthy": not any(problems.values()),
        "checks": [{"name": name, "healthy": not wrong, "problem": wrong} for name, wrong in problems.items()],
        "process": backend.conductor.owner,
        "release": kilonova.__version__,
        "schema": schema.head(),
        "read_only": reason is not None,
        "waiting_writes": backend.database.waiting_writes,
    }
    return Reply(200, {"health": body})


ROUTES: Routes = {"/v1/health": {"GET": Endpoint(show_health, query=NO_QUERY)}}
