# SPDX-License-Identifier: Apache-2.0
"""Routes of quota sets: limits and usage of a project, and of each user in a project."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from sqlalchemy.engine import Connection

from kilonova.api.compute.quota_limits import (
    Reader,
    change_limits,
    default_limits,
    limits_of_project,
    limits_reply,
    require_id,
    require_writable,
)
from kilonova.api.compute.schemas import quotas as schemas
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.policy import ADMIN, ANYONE, PROJECT_READER_OR_ADMIN, rule
from kilonova.api.schemas.types import as_bool
from kilonova.api.validation import invalid_field
from kilonova.db import quotas, server_groups
from kilonova.db.core.transaction import Transaction
from kilonova.db.quotas import EVERYBODY
from kilonova.model.quota import Limits

_ONE = "/os-quota-sets/{quota_project_id}"
_NAME = "quota_set"
_POLICY = "os_compute_api:os-quota-sets:"
RULES = (
    rule(f"{_POLICY}update", ADMIN, "Set limits", ("PUT", _ONE)),
    rule(f"{_POLICY}defaults", ANYONE, "Show default limits of projects", ("GET", f"{_ONE}/defaults")),
    rule(f"{_POLICY}show", PROJECT_READER_OR_ADMIN, "Show limits", ("GET", _ONE)),
    rule(f"{_POLICY}delete", ADMIN, "Reset limits to the defaults", ("DELETE", _ONE)),
    rule(f"{_POLICY}detail", PROJECT_READER_OR_ADMIN, "Show limits and usage", ("GET", f"{_ONE}/detail")),
)


def show_quota_set(ctx: Context, request: Request) -> Reply:
    """GET /os-quota-sets/{project}.  2.36 removes networks, 2.57 removes injected files.  Errors: 400."""
    project_id = _project(ctx, request, "show")
    limits = limits_of_project(ctx, project_id)
    with ctx.read() as connection:
        found = limits(connection, _user(request))
    return _reply(request, found, id=project_id)


def show_details(ctx: Context, request: Request) -> Reply:
    """GET /os-quota-sets/{project}/detail.  Errors: 400.

    As in Nova, the usage of key pairs and of members of server groups is always shown as 0.
    """
    project_id, user_id = _project(ctx, request, "detail"), _user(request)
    limits = limits_of_project(ctx, project_id)
    with ctx.read() as connection:
        used, found = _used(connection, project_id, user_id), limits(connection, user_id)
    details = {name: {"in_use": used.get(name, 0), "limit": limit, "reserved": 0} for name, limit in found.items()}
    return _reply(request, details, id=project_id)


def show_defaults(ctx: Context, request: Request) -> Reply:
    """GET /os-quota-sets/{project}/defaults.  Errors: 400."""
    project_id = _project(ctx, request, "defaults")
    limits = default_limits(ctx)
    with ctx.read() as connection:
        found = limits(connection)
    return _reply(request, found, id=project_id)


def update_quota_set(ctx: Context, request: Request) -> Reply:
    """PUT /os-quota-sets/{project}.  ``force`` allows limits that conflict with usage or other limits.  Errors: 400."""
    project_id, user_id = _project(ctx, request, "update"), _user(request)
    asked = dict(request.body[_NAME])
    is_forced = as_bool(asked.pop("force", False))
    limits = limits_of_project(ctx, project_id)

    def store(tx: Transaction, changed: Limits) -> None:
        if not is_forced:
            _check(tx.connection, limits, project_id, user_id, changed)
        quotas.set_limits(tx, project_id, user_id, changed)

    return _reply(request, change_limits(ctx, asked, partial(limits, user_id=user_id), store))


def delete_quota_set(ctx: Context, request: Request) -> Reply:
    """DELETE /os-quota-sets/{project}.  Deletes the limits of the project and of its users.

    With ``user_id`` in the query, only the limits of this user in the project are deleted.
    """
    project_id, user_id = _project(ctx, request, "delete", must_exist=False), _user(request)
    require_writable(ctx)
    ctx.write(lambda tx: quotas.delete_limits(tx, project_id, user_id))
    return Reply(202)


def _project(ctx: Context, request: Request, action: str, *, must_exist: bool = True) -> str:
    """Return the project id in the path. Raises: Forbidden; InvalidRequest if Keystone does not know the project."""
    project_id = require_id(request.path["quota_project_id"], "project_id")
    ctx.authorize(f"{_POLICY}{action}", project_id=project_id)
    if must_exist and project_id != ctx.project_id:
        ctx.backend.projects.require(project_id, token=ctx.credentials.token)
    return project_id


def _user(request: Request) -> str:
    user_id = request.param("user_id")
    return EVERYBODY if not user_id else require_id(user_id, "user_id")


def _used(connection: Connection, project_id: str, user_id: str) -> dict[str, int]:
    used = quotas.usage_of(connection, project_id, user_id)
    groups = server_groups.count(connection, project_id, user_id or None)
    return {**dict(used.items()), "server_groups": groups}


def _check(connection: Connection, limits: Reader, project_id: str, user_id: str, changed: Limits) -> None:
    """Raise InvalidRequest if a new limit is too low or too high.

    A limit must be at least the usage; the limit of a project must also be at least the sum of its users' own limits. A
    user's limit may be at most the project's limit minus the own limits of the project's other users.
    """
    used, project = _used(connection, project_id, user_id), limits(connection)
    of_users = quotas.limits_of_users(connection, project_id)
    for name, limit in changed.items():
        shares = sum(max(0, own.get(name, 0)) for user, own in of_users.items() if user != user_id)
        least, most = used.get(name, 0), math.inf
        if user_id == EVERYBODY:
            least = max(least, shares)
        elif project[name] >= 0:
            most = max(0, project[name] - shares)
        if _size(limit) < least:
            raise invalid_field(
                name, f"Value: {limit}. The usage or the sum of users' limits is {least}; `force` overrides this."
            )
        if _size(limit) > most:
            raise invalid_field(name, f"Value: {limit}. The project's limit leaves at most {most} for this user.")


def _size(limit: int) -> float:
    return math.inf if limit < 0 else limit


def _reply(request: Request, content: Mapping[str, Any], **more: str) -> Reply:
    return limits_reply(_NAME, schemas.quota_set_resources(request.version), content, **more)


ROUTES: Routes = {
    _ONE: {
        "GET": Endpoint(show_quota_set, query=schemas.OF_USER),
        "PUT": Endpoint(update_quota_set, body=schemas.UPDATE_SET, query=schemas.OF_USER),
        "DELETE": Endpoint(delete_quota_set, query=schemas.OF_USER),
    },
    f"{_ONE}/detail": {"GET": Endpoint(show_details, query=schemas.OF_USER)},
    f"{_ONE}/defaults": {"GET": Endpoint(show_defaults, query=schemas.OF_USER)},
}
