# SPDX-License-Identifier: Apache-2.0
"""Start, stop and reboot a server.  Source: spec COMPUTE_API §1.4."""

from collections.abc import Mapping

from kilonova.api.compute.server_states import check_allowed
from kilonova.api.compute.servers import find_server
from kilonova.api.http import Context, Endpoint, Reply, Request
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, rule
from kilonova.api.schemas.servers import ACTION_SCHEMAS
from kilonova.errors import Conflict, UnexpectedTaskState
from kilonova.model.instance import Instance
from kilonova.model.transitions import TRANSITIONS

RULES = (
    rule("os_compute_api:servers:reboot", PROJECT_MEMBER_OR_ADMIN, "Reboot a server", ("POST", "/servers/{id}/action")),
    rule("os_compute_api:servers:start", PROJECT_MEMBER_OR_ADMIN, "Start a server", ("POST", "/servers/{id}/action")),
    rule("os_compute_api:servers:stop", PROJECT_MEMBER_OR_ADMIN, "Stop a server", ("POST", "/servers/{id}/action")),
)


def reboot(ctx: Context, request: Request) -> Reply:
    """Soft or hard.  Errors: 404, 409."""
    instance = find_server(ctx, request.path["server_id"], "os_compute_api:servers:reboot")
    hard = request.body["reboot"]["type"].upper() == "HARD"
    return _change_power(ctx, instance, "hard-reboot" if hard else "reboot")


def start(ctx: Context, request: Request) -> Reply:
    """os-start.  Errors: 404, 409."""
    instance = find_server(ctx, request.path["server_id"], "os_compute_api:servers:start")
    return _change_power(ctx, instance, "start")


def stop(ctx: Context, request: Request) -> Reply:
    """os-stop.  Errors: 404, 409."""
    instance = find_server(ctx, request.path["server_id"], "os_compute_api:servers:stop")
    return _change_power(ctx, instance, "stop")


def _change_power(ctx: Context, instance: Instance, kind: str) -> Reply:
    check_allowed(instance, TRANSITIONS[kind])
    try:
        ctx.backend.conductor.operations.power.change(instance, kind, ctx.requester)
    except UnexpectedTaskState as error:
        raise Conflict(error.message) from None
    return Reply(202)


ACTIONS: Mapping[str, Endpoint] = {
    "reboot": Endpoint(reboot, body=ACTION_SCHEMAS["reboot"]),
    "os-start": Endpoint(start, body=ACTION_SCHEMAS["os-start"]),
    "os-stop": Endpoint(stop, body=ACTION_SCHEMAS["os-stop"]),
}
