# SPDX-License-Identifier: Apache-2.0
"""Describes ports of servers as interfaces: with their networks, subnets, addresses and security groups."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from kilonova.model.network_info import FixedAddress, NetworkInfo, Route, Vif, VifNetwork, VifSubnet
from kilonova.network.client import NetworkClient, Resource
from kilonova.network.resource_requests import resources_of

#: (port id, fixed address) → floating addresses.
_Floating = Mapping[tuple[str, str], Sequence[str]]


class AttachedPort(NamedTuple):
    """A port of a server. ``created``, ``tag``, ``profile_before``: as in :class:`Vif`."""

    port: Resource
    created: bool
    tag: str | None = None
    profile_before: Mapping[str, object] | None = None


def describe(client: NetworkClient, attached: Sequence[AttachedPort], *, floating: bool = True) -> NetworkInfo:
    """Return the interfaces of a server.

    ``floating``: whether the ports may have floating addresses; new ports have none.
    """
    ports = [each.port for each in attached]
    networks = by_id(client, "networks", {port["network_id"] for port in ports})
    subnets = by_id(client, "subnets", {fixed["subnet_id"] for port in ports for fixed in port["fixed_ips"]})
    groups = {group for port in ports for group in port.get("security_groups", ())}
    names = by_id(client, "security-groups", groups, ("id", "name"))
    translated = _floating_addresses(client, ports) if floating else {}
    return tuple(_vif(each, networks, subnets, names, translated) for each in attached)


def by_id(client: NetworkClient, kind: str, ids: Collection[str], fields: Sequence[str] = ()) -> Mapping[str, Resource]:
    """Return id → resource. Missing resources are left out. ``fields``: attributes to return; empty for all."""
    if not ids:
        return {}
    wanted = sorted(ids)
    found = client.list(kind, id=wanted, fields=fields) if fields else client.list(kind, id=wanted)
    return {each["id"]: each for each in found}


def _vif(
    attached: AttachedPort,
    networks: Mapping[str, Resource],
    subnets: Mapping[str, Resource],
    groups: Mapping[str, Resource],
    floating: _Floating,
) -> Vif:
    port = attached.port
    details = port.get("binding:vif_details") or {}
    return Vif(
        port_id=port["id"],
        mac=port["mac_address"],
        network=_network(port, networks.get(port["network_id"], {}), details.get("bridge_name")),
        subnets=tuple(_subnets(port, subnets, floating)),
        vif_type=port.get("binding:vif_type") or "unbound",
        vnic_type=port.get("binding:vnic_type") or "normal",
        details=details,
        profile=port.get("binding:profile") or {},
        security_groups=tuple(groups.get(each, {}).get("name") or each for each in port.get("security_groups", ())),
        active=port["status"] == "ACTIVE" or port.get("admin_state_up") is False,
        created=attached.created,
        tag=attached.tag,
        trunk_parent="trunk_details" in port,
        resources=resources_of(port),
        profile_before=attached.profile_before or {},
    )


def _network(port: Resource, network: Resource, bridge: str | None) -> VifNetwork:
    return VifNetwork(
        id=port["network_id"],
        label=network.get("name") or "",
        mtu=network.get("mtu"),
        project_id=network.get("project_id") or port["project_id"],
        physical_network=physical_network_of(network),
        bridge=bridge,
    )


def physical_network_of(network: Resource) -> str | None:
    """Return the first physical network of a network, which may have several segments."""
    for segment in network.get("segments") or [network]:
        if segment.get("provider:physical_network"):
            return str(segment["provider:physical_network"])
    return None


def _subnets(port: Resource, subnets: Mapping[str, Resource], floating: _Floating) -> Iterable[VifSubnet]:
    """Yield the subnets of a port, in the order of its addresses."""
    addresses: dict[str, list[FixedAddress]] = defaultdict(list)
    for fixed in port["fixed_ips"]:
        address = fixed["ip_address"]
        addresses[fixed["subnet_id"]].append(FixedAddress(address, tuple(floating.get((port["id"], address), ()))))
    for subnet_id, found in addresses.items():
        yield _subnet(subnet_id, subnets.get(subnet_id), tuple(found))


def _subnet(subnet_id: str, subnet: Resource | None, addresses: tuple[FixedAddress, ...]) -> VifSubnet:
    if subnet is None:  # deleted between the two requests
        address = ip_address(addresses[0].address)
        alone = str(ip_network(addresses[0].address))
        return VifSubnet(id=subnet_id, cidr=alone, version=address.version, has_dhcp=False, addresses=addresses)
    return VifSubnet(
        id=subnet_id,
        cidr=subnet["cidr"],
        version=subnet["ip_version"],
        gateway=subnet.get("gateway_ip"),
        has_dhcp=bool(subnet.get("enable_dhcp")),
        dns=tuple(subnet.get("dns_nameservers") or ()),
        routes=tuple(Route(each["destination"], each["nexthop"]) for each in subnet.get("host_routes") or ()),
        ipv6_address_mode=subnet.get("ipv6_address_mode"),
        addresses=addresses,
    )


def _floating_addresses(client: NetworkClient, ports: Sequence[Resource]) -> _Floating:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    if ports:
        wanted = ["port_id", "fixed_ip_address", "floating_ip_address"]
        for each in client.list("floatingips", port_id=[port["id"] for port in ports], fields=wanted):
            found[each["port_id"], each["fixed_ip_address"]].append(each["floating_ip_address"])
    return found
