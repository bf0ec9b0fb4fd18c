# SPDX-License-Identifier: Apache-2.0
"""Server groups: create, list, show, delete."""

from typing import Any

from sqlalchemy.engine import Connection

from kilonova.api.compute.quota_limits import limits_of_project
from kilonova.api.compute.schemas import server_groups as schemas
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes, integer_param
from kilonova.api.microversion import Version
from kilonova.api.policy import ADMIN, PROJECT_MEMBER_OR_ADMIN, PROJECT_READER_OR_ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.api.schemas.types import MAX_INTEGER
from kilonova.api.validation import invalid_field
from kilonova.db import server_groups
from kilonova.db.core.transaction import Transaction
from kilonova.deadline import heeding
from kilonova.errors import InvalidRequest
from kilonova.identifiers import new_uuid
from kilonova.model.server_group import ServerGroup
from kilonova.notifications.events import GroupActed

_ONE = "/os-server-groups/{server_group_id}"
RULES = (
    rule(
        "os_compute_api:os-server-groups:create",
        PROJECT_MEMBER_OR_ADMIN,
        "Create a server group",
        ("POST", "/os-server-groups"),
    ),
    rule("os_compute_api:os-server-groups:delete", PROJECT_MEMBER_OR_ADMIN, "Delete a server group", ("DELETE", _ONE)),
    rule(
        "os_compute_api:os-server-groups:index",
        PROJECT_READER_OR_ADMIN,
        "List server groups",
        ("GET", "/os-server-groups"),
    ),
    rule(
        "os_compute_api:os-server-groups:index:all_projects",
        ADMIN,
        "List server groups of all projects",
        ("GET", "/os-server-groups"),
    ),
    rule("os_compute_api:os-server-groups:show", PROJECT_READER_OR_ADMIN, "Show a server group", ("GET", _ONE)),
)


def list_server_groups(ctx: Context, request: Request) -> Reply:
    """GET /os-server-groups.  ``all_projects`` is ignored for callers without administrator rights."""
    ctx.authorize("os_compute_api:os-server-groups:index")
    everywhere = "all_projects" in request.query and ctx.may("os_compute_api:os-server-groups:index:all_projects")
    with ctx.read() as connection:
        found = server_groups.list_for(connection, None if everywhere else ctx.project_id)
    maximum = ctx.backend.settings.api.max_limit
    size = min(integer_param(request, "limit") or maximum, maximum)
    offset = integer_param(request, "offset") or 0
    page = found[offset : offset + size]
    return Reply(200, {"server_groups": [server_group_view(group, request.version) for group in heeding(page)]})


def create_server_group(ctx: Context, request: Request) -> Reply:
    """POST /os-server-groups.  2.15 adds soft policies.  Errors: 400, 403 over quota.

    Since 2.64 the body has a single ``policy`` with ``rules`` instead of the list ``policies``.
    """
    ctx.authorize("os_compute_api:os-server-groups:create")
    asked = request.body["server_group"]
    policy = asked["policy"] if "policy" in asked else asked["policies"][0]
    rules = asked.get("rules") or {}
    if rules and policy != "anti-affinity":
        raise InvalidRequest("Only anti-affinity policy supports rules.", field="rules")
    per_host = int(rules.get("max_server_per_host", 1))
    if not 1 <= per_host <= MAX_INTEGER:
        raise invalid_field("max_server_per_host", f"Value: {per_host}. The value must be positive.")
    group = ServerGroup(
        uuid=new_uuid(),
        name=asked["name"],
        policy=policy,
        project_id=ctx.project_id,
        user_id=ctx.user_id,
        max_server_per_host=per_host,
        has_rules=bool(rules),
    )
    limits = limits_of_project(ctx, ctx.project_id)

    def job(tx: Transaction) -> ServerGroup:
        ours, own = limits(tx.connection)["server_groups"], limits(tx.connection, ctx.user_id)["server_groups"]
        return server_groups.create(tx, group, limit=ours, limit_of_user=own)

    created = ctx.write(job)
    ctx.announce(GroupActed("create", created))
    return Reply(200, {"server_group": server_group_view(created, request.version)})


def show_server_group(ctx: Context, request: Request) -> Reply:
    """GET /os-server-groups/{server_group_id}.  Errors: 404."""
    with ctx.read() as connection:
        group = find_group(ctx, connection, request.path["server_group_id"], "os_compute_api:os-server-groups:show")
    return Reply(200, {"server_group": server_group_view(group, request.version)})


def delete_server_group(ctx: Context, request: Request) -> Reply:
    """DELETE /os-server-groups/{server_group_id}.  A group that has members can be deleted, too.  Errors: 404."""
    uuid = request.path["server_group_id"]

    def job(tx: Transaction) -> ServerGroup:
        group = find_group(ctx, tx.connection, uuid, "os_compute_api:os-server-groups:delete")
        server_groups.delete(tx, uuid)
        return group

    ctx.announce(GroupActed("delete", ctx.write(job)))
    return Reply(204)


def find_group(ctx: Context, connection: Connection, uuid: str, rule_name: str) -> ServerGroup:
    """Return a server group if policy allows ``rule_name`` on it.

    Raises: NotFound, also for a group that the caller may not see; Forbidden.
    """
    group = server_groups.get(connection, uuid)
    if not ctx.sees(rule_name, group.project_id):
        raise server_groups.missing(uuid)
    ctx.authorize(rule_name, project_id=group.project_id)
    return group


def server_group_view(group: ServerGroup, version: Version) -> dict[str, Any]:
    """Return a server group's view at a microversion."""
    view: dict[str, Any] = {"id": group.uuid, "name": group.name, "members": list(group.members)}
    if version >= Version(2, 64):
        view["policy"] = group.policy
        view["rules"] = {"max_server_per_host": group.max_server_per_host} if group.has_rules else {}
    else:
        view["policies"] = [group.policy]
        view["metadata"] = {}
    if version >= Version(2, 13):
        view["project_id"] = group.project_id
        view["user_id"] = group.user_id
    return view


ROUTES: Routes = {
    "/os-server-groups": {
        "GET": Endpoint(list_server_groups, query=schemas.LIST),
        "POST": Endpoint(create_server_group, body=schemas.CREATE, query=queries.NONE),
    },
    _ONE: {
        "GET": Endpoint(show_server_group, query=queries.NONE),
        "DELETE": Endpoint(delete_server_group, query=queries.NONE),
    },
}
