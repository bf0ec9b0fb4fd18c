# SPDX-License-Identifier: Apache-2.0
"""Actions that add a security group to all ports of a server, or remove it from them, with the rights of the caller."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from kilonova.api.compute.network_service import network_of, token_of
from kilonova.api.compute.schemas import server_networks as schemas
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.http import Context, Endpoint, Reply, Request
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, action, rule
from kilonova.db import instance_networks
from kilonova.db.core.transaction import Transaction
from kilonova.errors import InvalidRequest
from kilonova.model.network_info import Vif
from kilonova.network.client import NetworkClient
from kilonova.network.server_groups import GroupChange, add_group, remove_group

_P = "os_compute_api:os-security-groups"
_ADD, _REMOVE = "addSecurityGroup", "removeSecurityGroup"
RULES = (
    rule(f"{_P}:add", PROJECT_MEMBER_OR_ADMIN, "Add a security group to a server", action(_ADD)),
    rule(f"{_P}:remove", PROJECT_MEMBER_OR_ADMIN, "Remove a security group from a server", action(_REMOVE)),
)
#: Function that changes the groups of a server's ports. Arguments: client, token, project id, server, group.
_Change = Callable[[NetworkClient, str, str, str, str], GroupChange]


def add(ctx: Context, request: Request) -> Reply:
    """Add a security group to all ports of a server.  Errors: 400, 404, 409."""
    return _changed(ctx, request, _ADD, f"{_P}:add", add_group)


def remove(ctx: Context, request: Request) -> Reply:
    """Remove a security group from all ports of a server.  Errors: 400, 404, 409."""
    return _changed(ctx, request, _REMOVE, f"{_P}:remove", remove_group)


def _changed(ctx: Context, request: Request, name: str, rule_name: str, change: _Change) -> Reply:
    instance = find_server(ctx, request.path["server_id"], rule_name)
    client, wanted = network_of(ctx), request.body[name]["name"]
    if not wanted.strip():
        raise InvalidRequest("Security group name cannot be empty")
    done = change(client, token_of(ctx), ctx.project_id, instance.uuid, wanted)
    ctx.write(partial(_note, instance.uuid, done, is_added=change is add_group))
    return Reply(202)


def _note(uuid: str, done: GroupChange, tx: Transaction, *, is_added: bool) -> None:
    """Change the groups in the cached interfaces at once, without waiting for the event of the network service."""

    def noted(vif: Vif) -> Vif:
        if vif.port_id not in done.ports:
            return vif
        others = tuple(each for each in vif.security_groups if each != done.name)
        return replace(vif, security_groups=(*others, done.name) if is_added else others)

    info = instance_networks.info_of(tx.connection, uuid)
    changed = tuple(map(noted, info))
    if changed != info:
        instance_networks.store_info(tx, uuid, changed)


ACTIONS: Mapping[str, Endpoint] = {
    _ADD: Endpoint(add, body=schemas.ACTIONS[_ADD]),
    _REMOVE: Endpoint(remove, body=schemas.ACTIONS[_REMOVE]),
}
