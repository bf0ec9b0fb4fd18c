# SPDX-License-Identifier: Apache-2.0
"""Actions up to 2.43 that add a fixed address to a port of a server, or remove one."""

from collections.abc import Mapping, Sequence

from kilonova.api.compute.address_cache import refresh_addresses
from kilonova.api.compute.network_service import network_of, token_of
from kilonova.api.compute.schemas import server_networks as schemas
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.compute.servers.states import check_unlocked
from kilonova.api.http import Context, Endpoint, Reply, Request
from kilonova.api.microversion import Version
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, action, rule
from kilonova.errors import ConcurrentUpdate, Conflict, InvalidRequest, NotFound
from kilonova.model.address import canonical_address
from kilonova.model.instance import Instance
from kilonova.network.client import Resource

_P = "os_compute_api:os-multinic"
_LAST = Version(2, 43)
RULES = (
    rule(f"{_P}:add", PROJECT_MEMBER_OR_ADMIN, "Add a fixed address to a server", action("addFixedIp")),
    rule(f"{_P}:remove", PROJECT_MEMBER_OR_ADMIN, "Remove a fixed address from a server", action("removeFixedIp")),
)


def add_fixed_ip(ctx: Context, request: Request) -> Reply:
    """Add an address to a server's first port on a network.

    Errors: 400 if no subnet of the network has a free address; 404 for a network without a port of the server; 409.
    """
    instance = find_server(ctx, request.path["server_id"], f"{_P}:add")
    network = network_of(ctx)
    check_unlocked(ctx, instance)
    network_id = str(request.body["addFixedIp"]["networkId"])
    ports = _ports(ctx, instance, network_id=network_id)
    subnets = network.list("subnets", token=token_of(ctx), network_id=network_id, fields=["id"])
    if not ports or not subnets:
        raise NotFound(f"Network could not be found for instance {instance.uuid}.")
    for subnet in subnets:
        try:
            _set_addresses(ctx, ports[0], [*ports[0]["fixed_ips"], {"subnet_id": subnet["id"]}])
        except ConcurrentUpdate:
            raise
        except (Conflict, InvalidRequest):
            continue
        refresh_addresses(ctx, instance.uuid)
        return Reply(202)
    raise InvalidRequest(f"No fixed IP addresses available for network: {network_id}")


def remove_fixed_ip(ctx: Context, request: Request) -> Reply:
    """Remove an address from the server's port that has it.  Errors: 400 for an address that no port has; 409."""
    instance = find_server(ctx, request.path["server_id"], f"{_P}:remove")
    network_of(ctx)
    check_unlocked(ctx, instance)
    address = canonical_address(request.body["removeFixedIp"]["address"])
    for port in _ports(ctx, instance):
        kept = [fixed for fixed in port["fixed_ips"] if fixed["ip_address"] != address]
        if len(kept) < len(port["fixed_ips"]):
            _set_addresses(ctx, port, kept)
            refresh_addresses(ctx, instance.uuid)
            return Reply(202)
    raise InvalidRequest(f"Instance {instance.uuid} does not have fixed IP '{address}'.")


def _ports(ctx: Context, instance: Instance, **filters: str) -> Sequence[Resource]:
    fields = ["id", "fixed_ips", "revision_number"]
    return network_of(ctx).list("ports", token=token_of(ctx), device_id=instance.uuid, fields=fields, **filters)


def _set_addresses(ctx: Context, port: Resource, addresses: Sequence[Mapping[str, str]]) -> None:
    """Replace the addresses of a port, unless it has changed since it was read."""
    values = {"fixed_ips": list(addresses)}
    network_of(ctx).update("ports", port["id"], values, token=token_of(ctx), revision=port.get("revision_number"))


ACTIONS: Mapping[str, Endpoint] = {
    "addFixedIp": Endpoint(add_fixed_ip, body=schemas.ACTIONS["addFixedIp"], until=_LAST),
    "removeFixedIp": Endpoint(remove_fixed_ip, body=schemas.ACTIONS["removeFixedIp"], until=_LAST),
}
