# SPDX-License-Identifier: Apache-2.0
"""Administrative server actions: reset state, inject network info, reset network.  Source: spec COMPUTE_API §1.4."""

from collections.abc import Mapping
from dataclasses import replace

from kilonova.api.compute.removed import gone
from kilonova.api.compute.schemas import server_admin_actions as schemas
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.compute.servers.states import check_unlocked
from kilonova.api.http import Context, Endpoint, Reply, Request
from kilonova.api.policy import ADMIN, action, rule
from kilonova.errors import Conflict
from kilonova.model.instance import VmState
from kilonova.notifications.events import ServerChanged
from kilonova.notifications.message import Source

_P = "os_compute_api:os-admin-actions"
RULES = (
    rule(f"{_P}:reset_state", ADMIN, "Reset the state of a server", action("os-resetState")),
    rule(
        f"{_P}:inject_network_info",
        ADMIN,
        "Inject network information into a server",
        action("injectNetworkInfo"),
    ),
)


def reset_state(ctx: Context, request: Request) -> Reply:
    """Set the vm_state of a server to active or error, from any state, even if the server is locked.  Errors: 404."""
    instance = find_server(ctx, request.path["server_id"], f"{_P}:reset_state")
    state = VmState(request.body["os-resetState"]["state"])
    ctx.backend.conductor.operations.states.reset(instance, state, ctx.requester)
    after = replace(instance, vm_state=state, task_state=None)
    ctx.announce(ServerChanged(after, instance.vm_state, instance.task_state, Source.API))
    return Reply(202)


def inject_network_info(ctx: Context, request: Request) -> Reply:
    """Do nothing: no hypervisor driver changes the network configuration inside guests.  Errors: 404, 409."""
    instance = find_server(ctx, request.path["server_id"], f"{_P}:inject_network_info")
    check_unlocked(ctx, instance)
    if instance.host is None:
        raise Conflict(f"Instance {instance.uuid} is not ready: it has no host.")
    return Reply(202)


ACTIONS: Mapping[str, Endpoint] = {
    "os-resetState": Endpoint(reset_state, body=schemas.RESET_STATE),
    "injectNetworkInfo": Endpoint(inject_network_info, body=schemas.INJECT_NETWORK_INFO),
    "resetNetwork": Endpoint(gone),
}
