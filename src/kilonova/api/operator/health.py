# SPDX-License-Identifier: Apache-2.0
"""GET /operator/v1/health: health checks, periodic tasks and release of the control process that replies."""

from datetime import datetime

import kilonova
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.operator.schemas.parameters import NO_QUERY
from kilonova.api.policy import ADMIN, rule
from kilonova.conductor.hosts.refused_agents import RefusedAgent
from kilonova.db import schema, workflows
from kilonova.errors import Unavailable
from kilonova.periodic import TaskRun

RULES = (rule("kilonova:health:show", ADMIN, "Show the health of a control process", ("GET", "/operator/v1/health")),)


def show_health(ctx: Context, request: Request) -> Reply:
    """GET /v1/health.  Status 200 even if a check fails."""
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
        "workflows": _unfinished(ctx),
        "stray_ports": _stray_ports(ctx),
        "refused_agents": [_refused_view(each) for each in backend.conductor.refused_agents.list_all()],
        "periodic_tasks": [_task_view(run) for run in backend.health.tasks.runs()],
    }
    return Reply(200, {"health": body})


def _unfinished(ctx: Context) -> dict[str, object] | None:
    """Return counts of the unfinished workflows of the whole cloud; None while the database cannot be read."""
    try:
        with ctx.read() as connection:
            counted, absent = workflows.counts(connection), workflows.awaited_hosts(connection)
    except Unavailable:
        return None
    return {
        "unfinished": sum(each.workflows for each in counted),
        "stuck": sum(each.workflows for each in counted if each.stuck),
        "awaiting_hosts": [{"host": host, "workflows": count} for host, count in absent.items()],
    }


def _stray_ports(ctx: Context) -> dict[str, object] | None:
    """Return the numbers of stray ports at their last count; None without one, or without the database."""
    try:
        numbers = ctx.backend.conductor.operations.stray_ports.numbers()
    except Unavailable:
        return None
    if numbers is None:
        return None
    return {"counted_at": _time(numbers.counted_at), **{kind.value: n for kind, n in numbers.by_kind.items()}}


def _refused_view(refused: RefusedAgent) -> dict[str, object]:
    return {
        "agent": refused.agent,
        "release": refused.release,
        "message_version": refused.message_version,
        "hosts": list(refused.hosts),
        "reason": refused.reason,
        "refused_at": _time(refused.refused_at),
    }


def _task_view(run: TaskRun) -> dict[str, object]:
    return {
        "name": run.name,
        "description": run.description,
        "interval_s": run.interval_s,
        "running": run.is_running,
        "last_start": _time(run.last_start),
        "last_duration_s": run.last_duration_s,
        "last_error": run.last_error,
        "next_start": _time(run.next_start),
    }


def _time(at: datetime | None) -> str | None:
    return None if at is None else f"{at.isoformat(timespec='milliseconds')}Z"


ROUTES: Routes = {"/v1/health": {"GET": Endpoint(show_health, query=NO_QUERY)}}
