# SPDX-License-Identifier: Apache-2.0
"""Usage of projects in a period: the hours of their servers, and vCPUs, memory and disk multiplied by these hours.

A reply contains the usage of one page of servers. From 2.40 on it has a link to the next page, and clients sum up the
usage on all pages.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from kilonova.api.compute.links import next_link
from kilonova.api.compute.schemas import tenant_usage as schemas
from kilonova.api.compute.times import read_time, stored_time
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes, integer_param
from kilonova.api.lists_from_replica import from_replica
from kilonova.api.microversion import Version
from kilonova.api.policy import ADMIN, PROJECT_READER_OR_ADMIN, rule
from kilonova.db import server_usage
from kilonova.db.server_usage import ServerUsage
from kilonova.deadline import heeding
from kilonova.errors import InvalidRequest

_ALL, _ONE = "/os-simple-tenant-usage", "/os-simple-tenant-usage/{usage_project_id}"
_P = "os_compute_api:os-simple-tenant-usage"
RULES = (
    rule(f"{_P}:list", ADMIN, "Show the usage of all projects", ("GET", _ALL)),
    rule(f"{_P}:show", PROJECT_READER_OR_ADMIN, "Show the usage of a project", ("GET", _ONE)),
)
_PAGES = Version(2, 40)


def list_usages(ctx: Context, request: Request) -> Reply:
    """GET /os-simple-tenant-usage.  2.40 adds paging by server.  Errors: 400."""
    ctx.authorize(f"{_P}:list")
    start, stop, now = _period(ctx, request)
    found, links = _page(ctx, request, start, stop, "tenant_usages", project_id=None)
    servers: dict[str, list[ServerUsage]] = {}
    for server in heeding(found):
        servers.setdefault(server.project_id, []).append(server)
    detailed = request.query.get("detailed", ["0"])[0] == "1"
    views = [_view(project, of_it, start, stop, now, detailed=detailed) for project, of_it in servers.items()]
    return Reply(200, {"tenant_usages": views, **links})


def show_usage(ctx: Context, request: Request) -> Reply:
    """GET /os-simple-tenant-usage/{usage_project_id}.  2.40 adds paging by server.  Errors: 400.

    The reply also lists the project's servers.
    """
    project_id = request.path["usage_project_id"]
    ctx.authorize(f"{_P}:show", project_id=project_id)
    start, stop, now = _period(ctx, request)
    found, links = _page(ctx, request, start, stop, "tenant_usage", project_id=project_id)
    view = _view(project_id, found, start, stop, now, detailed=True) if found else {}
    return Reply(200, {"tenant_usage": view, **links})


def _period(ctx: Context, request: Request) -> tuple[datetime, datetime, datetime]:
    """Return the period's start, its end, and the present time. An end in the future is replaced by the present.

    Raises: InvalidRequest.
    """
    now = ctx.now()
    given = {name: request.query.get(name, [""])[0] for name in ("start", "end")}
    start, stop = (read_time(name, text) if text else now for name, text in given.items())
    if start > stop or (start == stop and any(given.values())):
        raise InvalidRequest("Invalid start time. The start time cannot occur after the end time.", field="start")
    return start, min(stop, now), now


def _page(
    ctx: Context, request: Request, start: datetime, stop: datetime, name: str, *, project_id: str | None
) -> tuple[Sequence[ServerUsage], dict[str, Any]]:
    """Return a page of servers, and the reply's field ``{<name>_links: …}`` with the link to the next page."""
    limit, marker = ctx.backend.settings.api.max_limit, None
    if request.version >= _PAGES:
        asked, marker = integer_param(request, "limit"), request.param("marker")
        limit = limit if asked is None else min(asked, limit)
    with ctx.read() as connection:
        found = list(server_usage.in_period(connection, start, stop, project_id=project_id, limit=limit, marker=marker))
    if request.version < _PAGES or not found or len(found) < limit:
        return found, {}
    return found, {f"{name}_links": [next_link(request, found[-1].uuid)]}


def _view(
    project_id: str, servers: Sequence[ServerUsage], start: datetime, stop: datetime, now: datetime, *, detailed: bool
) -> dict[str, Any]:
    views = [_server_view(server, start, stop, now) for server in heeding(servers)]
    totals = {
        f"total_{name}_usage": sum(view[name] * view["hours"] for view in views)
        for name in ("local_gb", "vcpus", "memory_mb")
    }
    return {
        "tenant_id": project_id,
        **({"server_usages": views} if detailed else {}),
        **totals,
        "total_hours": sum(view["hours"] for view in views),
        "start": stored_time(start),
        "stop": stored_time(stop),
    }


def _server_view(server: ServerUsage, start: datetime, stop: datetime, now: datetime) -> dict[str, Any]:
    ended = server.terminated_at
    used = min(stop, ended or stop) - max(start, server.launched_at)
    return {
        "instance_id": server.uuid,
        "name": server.name,
        "tenant_id": server.project_id,
        "flavor": server.flavor.name,
        "vcpus": server.flavor.vcpus,
        "memory_mb": server.flavor.memory_mib,
        "local_gb": server.flavor.root_gib + server.flavor.ephemeral_gib,
        "hours": max(0.0, used.total_seconds() / 3600),
        "started_at": stored_time(server.launched_at),
        "ended_at": stored_time(ended),
        "state": server.vm_state.value if ended is None else "terminated",
        "uptime": int(((ended or now) - server.launched_at).total_seconds()),
    }


ROUTES: Routes = {
    _ALL: {"GET": Endpoint(from_replica(list_usages), query=schemas.LIST)},
    _ONE: {"GET": Endpoint(from_replica(show_usage), query=schemas.SHOW)},
}
