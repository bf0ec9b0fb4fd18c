# SPDX-License-Identifier: Apache-2.0
"""Checks the networks, ports and security groups that a user requests, with the user's own rights.

The API replaces ``auto``, or an omitted network, by the id of a network, so that a stored request is complete.
"""

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any

from kilonova.errors import Conflict, InvalidRequest, NotFound
from kilonova.model.network_request import NO_NETWORKS, NetworkMode, NetworkRequest, RequestedNetwork
from kilonova.network.client import NetworkClient, Resource
from kilonova.network.group_names import group_ids
from kilonova.network.host_demands import HINTS, may_demand
from kilonova.network.usable_networks import UsableNetworks

#: Attributes of ports that a check needs.
_PORT_FIELDS = ("id", "network_id", "project_id", "device_id", "fixed_ips", "ip_allocation", *HINTS)
_ADDRESS_FIELDS = ("network_id", "device_id", "fixed_ips")
#: Values of a port's ``ip_allocation`` if the port has no address yet, or never gets one.
_WITHOUT_ADDRESS = frozenset({"deferred", "none"})


class _FixedIpInUse(Conflict):
    """A requested address belongs to a port."""


def read_request(
    client: NetworkClient,
    token: str | None,
    project_id: str,
    networks: str | Sequence[Mapping[str, Any]] | None,
    security_groups: Sequence[str],
    count: int,
    *,
    external_allowed: bool,
) -> NetworkRequest:
    """Return the checked request for the networks of new servers.

    ``networks``: as in the body of ``POST /servers``; None or empty: not given. ``security_groups``: names or ids.
    ``count``: number of servers. ``external_allowed``: whether the user may attach servers to external networks.
    Raises: InvalidRequest, Forbidden, Conflict, Unavailable; with Nova's messages.
    """
    usable = UsableNetworks(client, token, project_id, external_allowed)
    try:
        groups = group_ids(client, token, project_id, security_groups)
        match networks:
            case "none":
                return NO_NETWORKS
            case "auto":
                items: Sequence[RequestedNetwork] = (RequestedNetwork(network_id=usable.automatic()),)
            case None | []:
                only = usable.only_one()
                items = () if only is None else (RequestedNetwork(network_id=only["id"]),)
            case _:
                items = _check(usable, _items(networks, count), groups)
    except (NotFound, _FixedIpInUse) as error:
        raise InvalidRequest(error.message) from error
    if not items:
        return NO_NETWORKS
    return NetworkRequest(mode=NetworkMode.LISTED, networks=tuple(items), security_groups=groups)


def read_interface(
    client: NetworkClient,
    token: str | None,
    project_id: str,
    *,
    network_id: str | None = None,
    port_id: str | None = None,
    address: str | None = None,
    tag: str | None = None,
    external_allowed: bool,
) -> RequestedNetwork:
    """Return the checked request for another interface of a server of a project.

    Without ``network_id`` and ``port_id``, the only network that the project can use is meant.
    Raises: NotFound, InvalidRequest, Forbidden, Conflict, Unavailable; with Nova's messages.
    """
    usable = UsableNetworks(client, token, project_id, external_allowed)
    if network_id is None and port_id is None:
        try:
            only = usable.only_one()
        except Conflict as error:
            raise InvalidRequest(error.message) from error
        if only is None:
            raise InvalidRequest(
                f"No specific network was requested and none are available for project '{project_id}'."
            )
        network_id = only["id"]
    asked = RequestedNetwork(network_id=network_id or "", port_id=port_id, address=address, tag=tag)
    return _check(usable, (asked,), ())[0]


def _items(networks: str | Sequence[Mapping[str, Any]], count: int) -> Sequence[RequestedNetwork]:
    """Return the requested interfaces of a body, without requests to the network service."""
    if isinstance(networks, str) or not all(isinstance(each, Mapping) for each in networks):
        raise InvalidRequest("Bad networks format")
    items, ports = [], set[str]()
    for each in networks:
        port_id, address = each.get("port"), each.get("fixed_ip")
        if port_id is not None:
            if port_id in ports:
                raise InvalidRequest(
                    f"Port ID '{port_id}' was specified twice: you cannot attach a port multiple times."
                )
            if address is not None:
                raise InvalidRequest(
                    f"Specified Fixed IP '{address}' cannot be used with port '{port_id}': the two cannot be "
                    "specified together."
                )
            ports.add(port_id)
        elif each.get("uuid") is None:
            raise InvalidRequest("Bad network format: missing 'uuid'")
        network_id = "" if port_id is not None else each["uuid"]
        items.append(RequestedNetwork(network_id=network_id, port_id=port_id, address=address, tag=each.get("tag")))
    if count > 1:
        _refuse_for_several(items)
    return items


def _refuse_for_several(items: Sequence[RequestedNetwork]) -> None:
    """Refuse items that cannot be given to several servers: fixed addresses and existing ports."""
    if any(item.address is not None for item in items):
        reason = "max_count cannot be greater than 1 if an fixed_ip is specified."
        raise InvalidRequest(f"Failed to launch instances: {reason}")
    if any(item.port_id is not None for item in items):
        reason = (
            "Unable to launch multiple instances with a single configured port ID. Please launch your instance one by "
            "one with different ports."
        )
        raise InvalidRequest(f"Failed to launch instances: {reason}")


def _check(
    usable: UsableNetworks, items: Sequence[RequestedNetwork], groups: Sequence[str]
) -> Sequence[RequestedNetwork]:
    """Check the items and return them; an item with an existing port gets the network of this port."""
    ports = _usable_ports(usable, [item.port_id for item in items if item.port_id is not None])
    complete = [_complete(usable.client, item, ports) for item in items]
    networks = usable.by_id({item.network_id for item in complete})
    for item in complete:
        network = networks.get(item.network_id)
        if item.port_id is not None:
            continue
        if network is None:
            raise NotFound(f"Network {item.network_id} could not be found.")
        _check_new_port(network, groups)
    _refuse_used_addresses(usable, [item for item in complete if item.address is not None])
    usable.refuse_external(networks.values())
    return complete


def _check_new_port(network: Resource, groups: Sequence[str]) -> None:
    if not network.get("subnets"):
        raise InvalidRequest(f"Network {network['id']} requires a subnet in order to boot instances on.")
    if groups and not network.get("port_security_enabled", True):
        raise InvalidRequest(
            "Network requires port_security_enabled and subnet associated in order to apply security groups."
        )


def _usable_ports(usable: UsableNetworks, ids: Sequence[str]) -> Mapping[str, Resource]:
    """Return id → port for existing ports that a server of the project can use."""
    if not ids:
        return {}
    found = {each["id"]: each for each in usable.list("ports", id=sorted(ids), fields=_PORT_FIELDS)}
    for port_id in ids:
        port = found.get(port_id)
        if port is None or port["project_id"] != usable.project_id:
            raise NotFound(f"Port id {port_id} could not be found.")
        if port["device_id"]:
            raise Conflict(f"Port {port_id} is still in use.")
        if not port["fixed_ips"] and port.get("ip_allocation") not in _WITHOUT_ADDRESS:
            raise InvalidRequest(f"Port {port_id} requires a FixedIP in order to be used.")
    return found


def _complete(client: NetworkClient, item: RequestedNetwork, ports: Mapping[str, Resource]) -> RequestedNetwork:
    if item.port_id is None:
        return item
    port = ports[item.port_id]
    demands = may_demand(client, port)
    return RequestedNetwork(network_id=port["network_id"], port_id=item.port_id, tag=item.tag, demands=demands)


def _refuse_used_addresses(usable: UsableNetworks, items: Sequence[RequestedNetwork]) -> None:
    """Refuse addresses that ports of their networks have, by one request for all items."""
    wanted = {(item.network_id, str(ip_address(item.address or ""))): item.address for item in items}
    if not wanted:
        return
    networks, addresses = {network for network, _ in wanted}, {f"ip_address={address}" for _, address in wanted}
    found = usable.list("ports", network_id=sorted(networks), fixed_ips=sorted(addresses), fields=_ADDRESS_FIELDS)
    for port in found:
        for fixed in port["fixed_ips"]:
            if address := wanted.get((port["network_id"], fixed["ip_address"])):
                device = port.get("device_id") or ""
                raise _FixedIpInUse(f"Fixed IP address {address} is already in use on instance {device}.")
