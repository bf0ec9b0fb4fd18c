# SPDX-License-Identifier: Apache-2.0
"""Actions on floating IPs of a server up to 2.43."""

from collections.abc import Mapping

from kilonova.api.compute.address_cache import refresh_addresses
from kilonova.api.compute.network_service import network_of, token_of
from kilonova.api.compute.schemas import server_networks as schemas
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.http import Context, Endpoint, Reply, Request
from kilonova.api.microversion import Version
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, action, rule
from kilonova.db import instance_networks
from kilonova.errors import Conflict, InvalidRequest, NotFound
from kilonova.model.address import canonical_address
from kilonova.model.network_info import NetworkInfo
from kilonova.network import floating_ips

_P = "os_compute_api:os-floating-ips"
_LAST = Version(2, 43)
_IPV4 = 4
RULES = tuple(
    rule(f"{_P}:{name}", PROJECT_MEMBER_OR_ADMIN, words, action(f"{name}FloatingIp"))
    for name, words in (
        ("add", "Add a floating address to a server"),
        ("remove", "Remove a floating address from a server"),
    )
)


def add_floating_ip(ctx: Context, request: Request) -> Reply:
    """Associate a floating IP with ``fixed_address`` of a server, by default with the server's first IPv4 address.

    Errors: 400; 404 for an unknown floating IP.
    """
    instance = find_server(ctx, request.path["server_id"], f"{_P}:add")
    network, token = network_of(ctx), token_of(ctx)
    asked = request.body["addFloatingIp"]
    with ctx.read() as connection:
        info = instance_networks.info_of(connection, instance.uuid)
    port_id, fixed = _target(info, asked, instance.uuid)
    try:
        found = floating_ips.find(network, asked["address"], token=token)
    except NotFound:
        raise NotFound("floating IP not found") from None
    except Conflict as error:
        raise _failed(asked["address"], fixed, instance.uuid, error.message) from None
    try:
        floating_ips.associate(network, found, port_id, fixed, token=token)
    except Conflict as error:
        raise InvalidRequest(error.message) from None
    except (InvalidRequest, NotFound) as error:
        raise _failed(asked["address"], fixed, instance.uuid, error.message) from None
    before = () if found.device_id in {None, instance.uuid} else (str(found.device_id),)
    refresh_addresses(ctx, instance.uuid, *before)
    return Reply(202)


def remove_floating_ip(ctx: Context, request: Request) -> Reply:
    """Disassociate a floating IP from a server.

    Errors: 404 for an unknown floating IP; 409 if it is associated with another server.
    """
    instance = find_server(ctx, request.path["server_id"], f"{_P}:remove")
    network, token = network_of(ctx), token_of(ctx)
    address = request.body["removeFloatingIp"]["address"]
    found = floating_ips.find(network, address, token=token)
    if found.device_id != instance.uuid:
        raise Conflict(f"Floating IP {address} is not associated with instance {instance.uuid}.")
    floating_ips.disassociate(network, found, token=token)
    refresh_addresses(ctx, instance.uuid)
    return Reply(202)


def _target(info: NetworkInfo, asked: Mapping[str, str], instance_uuid: str) -> tuple[str, str]:
    """Return the port and the fixed address with which to associate a floating IP. Raises: InvalidRequest."""
    if not info:
        raise InvalidRequest("Instance network is not ready yet")
    fixed = [(vif.port_id, subnet.version, each.address) for vif in info for subnet, each in vif.addresses]
    if not fixed:
        raise InvalidRequest("No fixed IPs associated to instance")
    wanted = asked.get("fixed_address")
    if wanted is not None:
        named = [(port_id, address) for port_id, _, address in fixed if address == canonical_address(wanted)]
        if not named:
            raise InvalidRequest("Specified fixed address not assigned to instance")
        return named[0]
    for port_id, version, address in fixed:
        if version == _IPV4:
            return port_id, address
    raise InvalidRequest(
        f"Unable to associate floating IP {asked['address']} to any fixed IPs for instance {instance_uuid}. "
        "Instance has no fixed IPv4 addresses to associate."
    )


def _failed(address: str, fixed: str, instance_uuid: str, reason: str) -> InvalidRequest:
    return InvalidRequest(
        f"Unable to associate floating IP {address} to fixed IP {fixed} for instance {instance_uuid}. Error: {reason}"
    )


ACTIONS: Mapping[str, Endpoint] = {
    "addFloatingIp": Endpoint(add_floating_ip, body=schemas.ACTIONS["addFloatingIp"], until=_LAST),
    "removeFloatingIp": Endpoint(remove_floating_ip, body=schemas.ACTIONS["removeFloatingIp"], until=_LAST),
}
