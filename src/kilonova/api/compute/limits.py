# SPDX-License-Identifier: Apache-2.0
"""GET /limits: the absolute limits of a project or of a user in it, and the usage."""

from collections.abc import Mapping
from typing import Any

from kilonova.api.compute.quota_limits import limits_of_project, require_id
from kilonova.api.compute.schemas import quotas as schemas
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.policy import ADMIN, ANYONE, rule
from kilonova.db import quotas, server_groups
from kilonova.db.quotas import EVERYBODY

_PATH = "/limits"
RULES = (
    rule("os_compute_api:limits", ANYONE, "Show the limits of the caller's project", ("GET", _PATH)),
    rule("os_compute_api:limits:other_project", ADMIN, "Show the limits of another project or user", ("GET", _PATH)),
)
#: Field of the reply → name of the limited resource.
_MAXIMA: Mapping[str, str] = {
    "maxTotalInstances": "instances",
    "maxTotalCores": "cores",
    "maxTotalRAMSize": "ram",
    "maxTotalKeypairs": "key_pairs",
    "maxServerMeta": "metadata_items",
    "maxServerGroups": "server_groups",
    "maxServerGroupMembers": "server_group_members",
}
#: Field of the reply → name of the limited resource, and the first microversion without this field.
_OLD_MAXIMA: Mapping[str, tuple[str, Version]] = {
    "maxImageMeta": ("metadata_items", Version(2, 39)),
    "maxPersonality": ("injected_files", Version(2, 57)),
    "maxPersonalitySize": ("injected_file_content_bytes", Version(2, 57)),
    "maxSecurityGroups": ("security_groups", Version(2, 36)),
    "maxSecurityGroupRules": ("security_group_rules", Version(2, 36)),
    "maxTotalFloatingIps": ("floating_ips", Version(2, 36)),
}


def show_limits(ctx: Context, request: Request) -> Reply:
    """GET /limits.  ``tenant_id``, ``user_id``: another project, another user; for administrators only.

    With ``user_id``, the limits and the usage are those of the user in the project.  Errors: 400.
    2.36 removes the fields of networks, 2.39 those of images, 2.57 those of injected files.
    """
    ctx.authorize("os_compute_api:limits")
    asked = request.param("tenant_id")
    project_id = ctx.project_id if asked is None else require_id(asked, "tenant_id")
    user_id = _user(request)
    if project_id != ctx.project_id or user_id not in {EVERYBODY, ctx.user_id}:
        ctx.authorize("os_compute_api:limits:other_project", project_id=project_id)
    limits = limits_of_project(ctx, project_id)
    with ctx.read() as connection:
        found, used = limits(connection, user_id), quotas.usage_of(connection, project_id, user_id)
        groups = server_groups.count(connection, project_id, user_id or None)
    absolute: dict[str, Any] = {name: found[resource] for name, resource in _MAXIMA.items()}
    for name, (resource, end) in _OLD_MAXIMA.items():
        if request.version < end:
            absolute[name] = found[resource]
    absolute |= {"totalInstancesUsed": used.instances, "totalCoresUsed": used.cores, "totalRAMUsed": used.ram}
    absolute["totalServerGroupsUsed"] = groups
    if request.version < Version(2, 36):
        absolute |= {"totalSecurityGroupsUsed": 0, "totalFloatingIpsUsed": 0}
    return Reply(200, {"limits": {"rate": [], "absolute": absolute}})


def _user(request: Request) -> str:
    user_id = request.param("user_id")
    return EVERYBODY if user_id is None else require_id(user_id, "user_id")


ROUTES: Routes = {_PATH: {"GET": Endpoint(show_limits, query=schemas.LIMITS)}}
