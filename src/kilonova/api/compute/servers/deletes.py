# SPDX-License-Identifier: Apache-2.0
"""Actions restore and forceDelete of servers.  Source: spec COMPUTE_API §1.4, LIFECYCLE §4."""

from collections.abc import Mapping

from kilonova.api.compute.schemas import server_deletes as schemas
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.compute.servers.states import check_allowed
from kilonova.api.http import Context, Endpoint, Reply, Request
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, action, rule
from kilonova.errors import Conflict, UnexpectedTaskState

_DEFERRED = "os_compute_api:os-deferred-delete"
RULES = (
    rule(f"{_DEFERRED}:restore", PROJECT_MEMBER_OR_ADMIN, "Restore a soft-deleted server", action("restore")),
    rule(f"{_DEFERRED}:force", PROJECT_MEMBER_OR_ADMIN, "Delete a server for good", action("forceDelete")),
)


def restore(ctx: Context, request: Request) -> Reply:
    """Restore a soft-deleted server.  Errors: 403 over quota, 404, 409."""
    instance = find_server(ctx, request.path["server_id"], f"{_DEFERRED}:restore")
    check_allowed(ctx, instance, "restore")
    limits = ctx.backend.limits.of_project(instance.project_id)
    try:
        ctx.backend.conductor.operations.deletes.restore(instance.uuid, ctx.requester, limits)
    except UnexpectedTaskState as error:
        raise Conflict(error.message) from None
    return Reply(202)


def force_delete(ctx: Context, request: Request) -> Reply:
    """Delete a server at once, even if reclaim_instance_interval is set.  Errors: 404, 409 if the server is locked."""
    instance = find_server(ctx, request.path["server_id"], f"{_DEFERRED}:force")
    check_allowed(ctx, instance, "force-delete")
    ctx.backend.conductor.operations.deletes.force(instance.uuid, ctx.requester)
    return Reply(202)


ACTIONS: Mapping[str, Endpoint] = {
    "restore": Endpoint(restore, body=schemas.RESTORE),
    "forceDelete": Endpoint(force_delete, body=schemas.FORCE_DELETE),
}
