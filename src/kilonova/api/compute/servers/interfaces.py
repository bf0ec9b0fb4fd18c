# SPDX-License-Identifier: Apache-2.0
"""Ports of a server: list and show them, attach and detach them.

Lists show the ports as the network service has them, with the caller's rights. Without a network service, lists are
empty, and no port can be attached.
"""

from collections.abc import Mapping
from typing import Any

from kilonova.api.compute.missing_services import NETWORK, no_service
from kilonova.api.compute.network_service import token_of
from kilonova.api.compute.schemas import server_interfaces as schemas
from kilonova.api.compute.servers.requested_networks import may_attach_external, read_demand
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.compute.servers.states import check_allowed
from kilonova.api.faults import HttpError
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, PROJECT_READER_OR_ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.db import instance_networks
from kilonova.errors import DriverError, InvalidRequest, NotFound
from kilonova.model.instance import Instance
from kilonova.model.network_info import NetworkInfo, find_vif
from kilonova.network.client import NetworkClient, Resource
from kilonova.network.requests import read_interface

_P = "os_compute_api:os-attach-interfaces"
_ALL = "/servers/{server_id}/os-interface"
_ONE = f"{_ALL}/{{port_id}}"
RULES = (
    rule(f"{_P}:list", PROJECT_READER_OR_ADMIN, "List the ports of a server", ("GET", _ALL)),
    rule(f"{_P}:show", PROJECT_READER_OR_ADMIN, "Show a port of a server", ("GET", _ONE)),
    rule(f"{_P}:create", PROJECT_MEMBER_OR_ADMIN, "Attach a port", ("POST", _ALL)),
    rule(f"{_P}:delete", PROJECT_MEMBER_OR_ADMIN, "Detach a port", ("DELETE", _ONE)),
)
_SHOWS_TAG = Version(2, 70)
_FIELDS = ("id", "network_id", "mac_address", "status", "fixed_ips", "device_id")


def list_interfaces(ctx: Context, request: Request) -> Reply:
    """GET /servers/{server_id}/os-interface.  Since: 2.70 tag.  Errors: 404 for an unknown server."""
    instance = find_server(ctx, request.path["server_id"], f"{_P}:list")
    if ctx.backend.network is None:
        return Reply(200, {"interfaceAttachments": []})
    ports = ctx.backend.network.list("ports", token=token_of(ctx), device_id=instance.uuid, fields=_FIELDS)
    tags = _tags(ctx, request, instance)
    return Reply(200, {"interfaceAttachments": [_view(port, tags) for port in ports]})


def show_interface(ctx: Context, request: Request) -> Reply:
    """GET /servers/{server_id}/os-interface/{port_id}.  Since: 2.70 tag.  Errors: 404."""
    instance = find_server(ctx, request.path["server_id"], f"{_P}:show")
    return _shown(ctx, request, instance, request.path["port_id"])


def _shown(ctx: Context, request: Request, instance: Instance, port_id: str) -> Reply:
    if ctx.backend.network is None:
        raise _not_there(instance, port_id)
    port = _port(ctx.backend.network, port_id, token_of(ctx))
    if port["device_id"] != instance.uuid:
        raise _not_there(instance, port_id)
    return Reply(200, {"interfaceAttachment": _view(port, _tags(ctx, request, instance))})


def attach_interface(ctx: Context, request: Request) -> Reply:
    """POST /servers/{server_id}/os-interface.  Since: 2.49 tag.  Errors: 400, 403 over quota, 404, 409, 500.

    The reply is sent when the guest has the interface.
    """
    instance = find_server(ctx, request.path["server_id"], f"{_P}:create")
    if ctx.backend.network is None:
        raise no_service(NETWORK)
    asked: Mapping[str, Any] = request.body.get("interfaceAttachment", {})
    network_id, port_id = asked.get("net_id"), asked.get("port_id")
    address = next((fixed["ip_address"] for fixed in asked.get("fixed_ips", ())), None)
    if network_id and port_id:
        raise InvalidRequest("Must not input both network_id and port_id")
    if address and not network_id:
        raise InvalidRequest("Must input network_id when request IP address")
    check_allowed(ctx, instance, "attach-interface")
    wanted = read_interface(
        ctx.backend.network,
        token_of(ctx),
        instance.project_id,
        network_id=network_id,
        port_id=port_id,
        address=address,
        tag=asked.get("tag"),
        external_allowed=may_attach_external(ctx),
    )
    demand = read_demand(ctx, wanted)
    try:
        vif = ctx.backend.conductor.operations.interfaces.attach(instance.uuid, wanted, ctx.requester, demand)
    except DriverError as error:
        raise HttpError(500, f"Failed to attach network adapter device to {instance.uuid}") from error
    return _shown(ctx, request, instance, vif.port_id)


def detach_interface(ctx: Context, request: Request) -> Reply:
    """DELETE /servers/{server_id}/os-interface/{port_id}.  Errors: 404, 409.

    The port is deleted if Kilonova created it for the server, and otherwise only released.
    """
    instance, port_id = find_server(ctx, request.path["server_id"], f"{_P}:delete"), request.path["port_id"]
    if ctx.backend.network is None:
        raise _not_there(instance, port_id)
    check_allowed(ctx, instance, "detach-interface")
    if find_vif(_interfaces(ctx, instance), port_id) is None:
        raise NotFound(f"Port id {port_id} could not be found.")
    ctx.backend.conductor.operations.interfaces.detach(instance.uuid, port_id, ctx.requester)
    return Reply(202)


def _not_there(instance: Instance, port_id: str) -> NotFound:
    return NotFound(f"Instance {instance.uuid} does not have a port with id {port_id}")


def _port(client: NetworkClient, port_id: str, token: str) -> Resource:
    try:
        return client.show("ports", port_id, token=token)
    except NotFound:
        raise NotFound(f"Port id {port_id} could not be found.") from None


def _view(port: Resource, tags: Mapping[str, str | None] | None) -> dict[str, Any]:
    """Return the view of a port. ``tags``: port id → device tag; None: the microversion shows no tags."""
    view = {
        "net_id": port["network_id"],
        "port_id": port["id"],
        "mac_addr": port["mac_address"],
        "port_state": port["status"],
        "fixed_ips": port.get("fixed_ips"),
    }
    if tags is not None:
        view["tag"] = tags.get(port["id"])
    return view


def _tags(ctx: Context, request: Request, instance: Instance) -> Mapping[str, str | None] | None:
    if request.version < _SHOWS_TAG:
        return None
    return {vif.port_id: vif.tag for vif in _interfaces(ctx, instance)}


def _interfaces(ctx: Context, instance: Instance) -> NetworkInfo:
    with ctx.read() as connection:
        return instance_networks.info_of(connection, instance.uuid)


ROUTES: Routes = {
    _ALL: {
        "GET": Endpoint(list_interfaces, query=queries.NONE),
        "POST": Endpoint(attach_interface, body=schemas.ATTACH),
    },
    _ONE: {
        "GET": Endpoint(show_interface, query=queries.NONE),
        "DELETE": Endpoint(detach_interface),
    },
}
