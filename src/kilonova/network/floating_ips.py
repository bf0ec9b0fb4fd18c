# SPDX-License-Identifier: Apache-2.0
"""Floating IPs of the network service, with the rights of a user.

A floating IP is taken from a pool, which is an external network, and is translated to one fixed address of a port.
"""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from kilonova.errors import Conflict, InvalidRequest, NotFound
from kilonova.network.client import NetworkClient, Resource
from kilonova.records import dataclass

_EXTERNAL: Mapping[str, object] = {"router:external": True}
#: Types of Neutron's errors for a pool without a free address. The status of the first is 409, that of the second 400.
_EXHAUSTED = frozenset({"IpAddressGenerationFailure", "ExternalIpAddressExhausted"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatingIp:
    """A floating IP.

    ``pool``: name of its external network, or the network's id if the name is empty. ``fixed_address``, ``port_id``:
    the address and the port with which it is associated; None if there are none. ``device_id``: device of the port, the
    uuid of a server for a server's port.
    """

    id: str
    address: str
    pool: str
    fixed_address: str | None = None
    port_id: str | None = None
    device_id: str | None = None


class PoolExhausted(NotFound):
    """A pool has no free address."""


def pools(client: NetworkClient, *, token: str) -> list[str]:
    """Return the names of all pools that the user can see; for a pool without a name, its id."""
    return [_pool_name(each) for each in client.list("networks", token=token, **_EXTERNAL)]


def of_project(client: NetworkClient, project_id: str, *, token: str) -> list[FloatingIp]:
    """Return the floating IPs of a project. There are none if the network service has no routers."""
    try:
        found = client.list("floatingips", token=token, project_id=project_id)
    except NotFound:
        return []
    return _read(client, found, token)


def get(client: NetworkClient, floating_ip_id: str, *, token: str) -> FloatingIp:
    """Return a floating IP by its id. Raises: NotFound."""
    return _read(client, [client.show("floatingips", floating_ip_id, token=token)], token)[0]


def find(client: NetworkClient, address: str, *, token: str) -> FloatingIp:
    """Return the floating IP with an address. Raises: NotFound, and Conflict if the user sees several of them."""
    try:
        found = client.list("floatingips", token=token, floating_ip_address=address)
    except NotFound:
        found = ()
    if not found:
        raise NotFound(f"Floating IP not found for address {address}.")
    if len(found) > 1:
        raise Conflict(f"Multiple floating IPs are found for address {address}.")
    return _read(client, found, token)[0]


def allocate(client: NetworkClient, pool: str, *, token: str) -> FloatingIp:
    """Take a floating IP from a pool, given by the name or id of its network.

    Raises: NotFound for an unknown pool; PoolExhausted; OverQuota; InvalidRequest, also for an ambiguous name.
    """
    values = {"floating_network_id": _pool_id(client, pool, token)}
    try:
        made = client.create("floatingips", values, token=token)
    except (Conflict, InvalidRequest) as error:
        if error.fields.get("type") in _EXHAUSTED:
            raise PoolExhausted(error.message) from None
        raise
    return _read(client, [made], token)[0]


def associate(client: NetworkClient, floating_ip: FloatingIp, port_id: str, fixed_address: str, *, token: str) -> None:
    """Associate a floating IP with a fixed address of a port; an existing association is replaced.

    Raises: Conflict if the fixed address has a floating IP already; InvalidRequest; Forbidden.
    """
    values = {"port_id": port_id, "fixed_ip_address": fixed_address}
    client.update("floatingips", floating_ip.id, values, token=token)


def disassociate(client: NetworkClient, floating_ip: FloatingIp, *, token: str) -> None:
    """Disassociate a floating IP. The project keeps it."""
    client.update("floatingips", floating_ip.id, {"port_id": None}, token=token)


def release(client: NetworkClient, floating_ip: FloatingIp, *, token: str) -> None:
    """Return a floating IP to its pool, also if it is associated."""
    try:
        client.delete("floatingips", floating_ip.id, token=token)
    except NotFound:
        raise NotFound(f"Floating IP not found for address {floating_ip.address}.") from None


def _pool_id(client: NetworkClient, name_or_id: str, token: str) -> str:
    kind = "id" if _is_uuid(name_or_id) else "name"
    found = client.list("networks", token=token, **_EXTERNAL, **{kind: name_or_id})
    if not found:
        raise NotFound("Floating IP pool not found.")
    if len(found) > 1:
        raise InvalidRequest(f"Multiple floating IP pools matches found for name '{name_or_id}'")
    return str(found[0]["id"])


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _pool_name(network: Resource) -> str:
    return str(network.get("name") or network["id"])


def _read(client: NetworkClient, found: Sequence[Resource], token: str) -> list[FloatingIp]:
    networks = _by_id(client, "networks", {each["floating_network_id"] for each in found}, "name", token)
    # Neutron shows ``port_details`` if its extension fip-port-details is enabled
    devices = {each["port_id"]: each["port_details"] for each in found if each.get("port_details")}
    unknown = {each["port_id"] for each in found if each["port_id"]} - devices.keys()
    devices |= _by_id(client, "ports", unknown, "device_id", token)
    return [
        FloatingIp(
            id=each["id"],
            address=each["floating_ip_address"],
            pool=_pool_name(networks.get(each["floating_network_id"], {"id": each["floating_network_id"]})),
            fixed_address=each["fixed_ip_address"],
            port_id=each["port_id"],
            device_id=devices.get(each["port_id"], {}).get("device_id") or None,
        )
        for each in found
    ]


def _by_id(client: NetworkClient, kind: str, ids: Collection[str], field: str, token: str) -> dict[str, Resource]:
    if not ids:
        return {}
    found = client.list(kind, token=token, id=sorted(ids), fields=["id", field])
    return {each["id"]: each for each in found}
