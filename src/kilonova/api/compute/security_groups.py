# SPDX-License-Identifier: Apache-2.0
"""Routes of security groups up to 2.35. The network service owns the groups and their quota."""

from typing import Any
from uuid import UUID

from kilonova.api.compute.network_service import network_of, token_of
from kilonova.api.compute.schemas import security_groups as schemas
from kilonova.api.compute.security_group_views import groups_view
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes, integer_param
from kilonova.api.microversion import Version
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, PROJECT_READER_OR_ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.errors import Conflict, InvalidRequest, NotFound, OverQuota
from kilonova.network import security_groups
from kilonova.network.security_groups import SecurityGroup

_ALL, _ONE = "/os-security-groups", "/os-security-groups/{security_group_id}"
_P = "os_compute_api:os-security-groups"
_LAST = Version(2, 35)
RULES = (
    rule(f"{_P}:get", PROJECT_READER_OR_ADMIN, "List security groups", ("GET", _ALL)),
    rule(f"{_P}:create", PROJECT_MEMBER_OR_ADMIN, "Make a security group", ("POST", _ALL)),
    rule(f"{_P}:show", PROJECT_READER_OR_ADMIN, "Show a security group", ("GET", _ONE)),
    rule(f"{_P}:update", PROJECT_MEMBER_OR_ADMIN, "Change a security group", ("PUT", _ONE)),
    rule(f"{_P}:delete", PROJECT_MEMBER_OR_ADMIN, "Remove a security group", ("DELETE", _ONE)),
)


def list_groups(ctx: Context, request: Request) -> Reply:
    """GET /os-security-groups.  Until: 2.35.

    ``all_tenants``: of all projects, for administrators; ignored for others. ``limit`` 0 means no limit.
    """
    ctx.authorize(f"{_P}:get")
    if ctx.backend.network is None:
        return Reply(200, {"security_groups": []})
    sees_all = "all_tenants" in request.query and ctx.may("context_is_admin")
    project_id = None if sees_all else ctx.project_id
    found = security_groups.all_groups(ctx.backend.network, project_id, token=token_of(ctx))
    maximum = ctx.backend.settings.api.max_limit
    start = integer_param(request, "offset") or 0
    size = min(integer_param(request, "limit") or maximum, maximum)
    page = found[start : start + size]
    return Reply(200, {"security_groups": groups_view(ctx.backend.network, page, token=token_of(ctx))})


def show_group(ctx: Context, request: Request) -> Reply:
    """GET /os-security-groups/{security_group_id}.  Until: 2.35.  Errors: 400, 404."""
    ctx.authorize(f"{_P}:show")
    return _reply(ctx, _find(ctx, request))


def create_group(ctx: Context, request: Request) -> Reply:
    """POST /os-security-groups.  Until: 2.35.  Errors: 400, 403 over quota."""
    ctx.authorize(f"{_P}:create")
    try:
        made = security_groups.create_group(network_of(ctx), *_asked(request), token=token_of(ctx))
    except Conflict as error:
        raise OverQuota(error.message) from None
    return _reply(ctx, made)


def update_group(ctx: Context, request: Request) -> Reply:
    """PUT /os-security-groups/{security_group_id}.  Until: 2.35.  Errors: 400, also for the default group; 404."""
    ctx.authorize(f"{_P}:update")
    group = _find(ctx, request)
    try:
        changed = security_groups.update_group(network_of(ctx), group.id, *_asked(request), token=token_of(ctx))
    except Conflict as error:
        raise InvalidRequest(error.message) from None
    return _reply(ctx, changed)


def delete_group(ctx: Context, request: Request) -> Reply:
    """DELETE /os-security-groups/{security_group_id}.  Until: 2.35.  Errors: 400, also for a group in use; 404."""
    ctx.authorize(f"{_P}:delete")
    group = _find(ctx, request)
    try:
        security_groups.delete_group(network_of(ctx), group.id, token=token_of(ctx))
    except Conflict as error:
        raise InvalidRequest(error.message) from None
    return Reply(202)


def require_uuid(text: str) -> str:
    """Return an id from a path. Raises: InvalidRequest unless it is a UUID."""
    try:
        UUID(text)
    except ValueError:
        raise InvalidRequest("Security group id should be uuid") from None
    return text


def _find(ctx: Context, request: Request) -> SecurityGroup:
    group_id = request.path["security_group_id"]
    if ctx.backend.network is None:
        raise NotFound(f"There is no security group {group_id}.")
    return security_groups.get_group(ctx.backend.network, require_uuid(group_id), token=token_of(ctx))


def _asked(request: Request) -> tuple[str, str]:
    asked: dict[str, Any] = request.body["security_group"]
    return asked["name"], asked["description"]


def _reply(ctx: Context, group: SecurityGroup) -> Reply:
    (view,) = groups_view(network_of(ctx), [group], token=token_of(ctx))
    return Reply(200, {"security_group": view})


ROUTES: Routes = {
    _ALL: {
        "GET": Endpoint(list_groups, query=queries.OFFSET_PAGE, until=_LAST),
        "POST": Endpoint(create_group, body=schemas.GROUP, until=_LAST),
    },
    _ONE: {
        "GET": Endpoint(show_group, until=_LAST),
        "PUT": Endpoint(update_group, body=schemas.GROUP, until=_LAST),
        "DELETE": Endpoint(delete_group, until=_LAST),
    },
}
