# SPDX-License-Identifier: Apache-2.0
"""Routes below /operator/v1/servers, for operations that Nova does not have.

They count servers, remove a server from its server group, and replace a server's scheduler hints.
"""

from dataclasses import replace

from kilonova.api.compute.hints import read_hints, shown_hints, unseen_instances
from kilonova.api.compute.servers.filters import asks_for_all_projects
from kilonova.api.compute.servers.lists import count_matching
from kilonova.api.compute.versions import MAX_VERSION
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.lists_from_replica import from_replica
from kilonova.api.operator.known_names import require_flavor, require_host
from kilonova.api.operator.schemas import servers as schemas
from kilonova.api.operator.schemas.parameters import NO_QUERY
from kilonova.api.policy import ADMIN, PROJECT_READER_OR_ADMIN, rule
from kilonova.api.validation import invalid_field, invalid_parameter

_COUNT, _ONE = "/v1/servers/count", "/v1/servers/{server_id}"
RULES = (
    rule("kilonova:servers:count", PROJECT_READER_OR_ADMIN, "Count servers", ("GET", f"/operator{_COUNT}")),
    rule("kilonova:servers:leave_group", ADMIN, "Leave a server group", ("POST", f"/operator{_ONE}/leave-group")),
    rule("kilonova:servers:set_hints", ADMIN, "Change scheduler hints", ("PUT", f"/operator{_ONE}/hints")),
)


def count_servers(ctx: Context, request: Request) -> Reply:
    """GET /v1/servers/count.  The filters are those of GET /servers at the newest microversion.  Errors: 400, 403."""
    ctx.authorize("kilonova:servers:count")
    found = count_matching(ctx, replace(request, version=MAX_VERSION))
    _require_own_project(ctx, request)
    if not found and ctx.may("os_compute_api:servers:allow_all_filters"):
        with ctx.read() as connection:
            require_host(connection, "host", request.param("host"))
            require_flavor(connection, "flavor", request.param("flavor"))
    return Reply(200, {"count": found})


def _require_own_project(ctx: Context, request: Request) -> None:
    """Raise InvalidRequest for another project's id without ``all_tenants``, because the id would be ignored."""
    if asks_for_all_projects(request):
        return
    for name in ("project_id", "tenant_id"):
        if (project_id := request.param(name)) not in {None, ctx.project_id}:
            raise invalid_parameter(name, project_id, "Counting another project's servers needs all_tenants=1.")


def leave_group(ctx: Context, request: Request) -> Reply:
    """POST /v1/servers/{server_id}/leave-group.  Removes a server from its group.

    The guest is not changed.  Errors: 404, 409 while an operation on the server is running.
    """
    ctx.authorize("kilonova:servers:leave_group")
    uuid, group = request.path["server_id"], request.body["leave_group"]["server_group"]
    ctx.backend.conductor.operations.requests.leave_group(uuid, group, ctx.requester)
    return Reply(204)


def set_hints(ctx: Context, request: Request) -> Reply:
    """PUT /v1/servers/{server_id}/hints.  Replaces a server's hints, which apply to its later moves.

    Errors: 400, 404, 409 while an operation on the server is running.
    """
    ctx.authorize("kilonova:servers:set_hints")
    given = request.body["hints"]
    if "group" in given:
        raise invalid_field("hints.group", "A server can join a server group at creation only.")
    hints = read_hints(ctx, given, field="hints")
    unseen = unseen_instances(ctx, hints)
    kept = ctx.backend.conductor.operations.requests.set_hints(request.path["server_id"], hints, unseen, ctx.requester)
    return Reply(200, {"hints": shown_hints(kept)})


ROUTES: Routes = {
    _COUNT: {"GET": Endpoint(from_replica(count_servers), query=schemas.COUNT)},
    f"{_ONE}/leave-group": {"POST": Endpoint(leave_group, body=schemas.LEAVE_GROUP, query=NO_QUERY)},
    f"{_ONE}/hints": {"PUT": Endpoint(set_hints, body=schemas.SET_HINTS, query=NO_QUERY)},
}
