# SPDX-License-Identifier: Apache-2.0
"""Address management of the fake Neutron: which addresses a new port gets, and which are refused."""

from collections.abc import Mapping, Sequence
from ipaddress import ip_address, ip_network
from itertools import islice
from typing import Any

from kilonova.errors import Conflict, InvalidRequest
from support.fake_neutron.store import Store, Stored

#: Modes in which a host derives its address from its MAC address.
_SLAAC = {"slaac", "dhcpv6-stateless"}
#: Number of addresses of a subnet that are tried, so that a test with a /64 ends.
_TRIED = 70_000


def eui64(cidr: str, mac: str) -> str:
    """Return the address that a host with this MAC address gives itself in an IPv6 network."""
    octets = bytes.fromhex(mac.replace(":", ""))
    suffix = bytes((octets[0] ^ 2,)) + octets[1:3] + b"\xff\xfe" + octets[3:]
    return str(ip_network(cidr)[int.from_bytes(suffix, "big")])


def choose(store: Store, network: Stored, wanted: Sequence[Mapping[str, str]] | None, mac: str) -> list[dict[str, str]]:
    """Return the addresses of a port.

    ``wanted``: the request's ``fixed_ips``; None: one address of IPv4 and one of IPv6. The addresses that the host
    derives itself are always added.
    Raises: InvalidRequest, Conflict.
    """
    subnets = store.where("subnets", network_id=network["id"])
    chosen: list[dict[str, str]] = []
    if wanted is None:
        for version in (4, 6):
            given = [each for each in subnets if each["ip_version"] == version and not _is_slaac(each)]
            if given:
                chosen.append(_any_of(store, network, given))
    for item in wanted or ():
        chosen.append(_wanted(store, network, subnets, item, mac, chosen))
    named = {each["subnet_id"] for each in chosen}
    derives = [each for each in subnets if _is_slaac(each) and each["id"] not in named]
    return chosen + [{"subnet_id": each["id"], "ip_address": eui64(each["cidr"], mac)} for each in derives]


def _wanted(
    store: Store,
    network: Stored,
    subnets: list[Stored],
    item: Mapping[str, str],
    mac: str,
    chosen: Sequence[Mapping[str, str]],
) -> dict[str, str]:
    subnet_id, address = item.get("subnet_id"), item.get("ip_address")
    if subnet_id is not None:
        subnets = [each for each in subnets if each["id"] == store.get("subnets", subnet_id)["id"]]
        if not subnets:
            raise InvalidRequest(
                f"Failed to create port on network {network['id']}, because fixed_ips included invalid subnet "
                f"{subnet_id}."
            )
    if address is None:
        if all(map(_is_slaac, subnets)):
            return {"subnet_id": subnets[0]["id"], "ip_address": eui64(subnets[0]["cidr"], mac)}
        return _any_of(store, network, subnets, chosen)
    inside = [each for each in subnets if ip_address(address) in ip_network(each["cidr"])]
    if not inside:
        whole = "the specified subnet" if subnet_id else "any of the subnets on the specified network"
        kind = "InvalidIpForSubnet" if subnet_id else "InvalidIpForNetwork"
        raise InvalidRequest(f"IP address {address} is not a valid IP for {whole}.", type=kind)
    if address in used(store, inside[0]["id"]):
        raise Conflict(
            f"IP address {address} already allocated in subnet {inside[0]['id']}",
            type="IpAddressAlreadyAllocated",
        )
    return {"subnet_id": inside[0]["id"], "ip_address": str(ip_address(address))}


def _any_of(
    store: Store, network: Stored, subnets: list[Stored], chosen: Sequence[Mapping[str, str]] = ()
) -> dict[str, str]:
    for subnet in subnets:
        taken = used(store, subnet["id"]) | {subnet["gateway_ip"], *(each["ip_address"] for each in chosen)}
        for candidate in islice(_pool(subnet), _TRIED):
            if candidate not in taken:
                return {"subnet_id": subnet["id"], "ip_address": candidate}
    raise Conflict(f"No more IP addresses available on network {network['id']}.", type="IpAddressGenerationFailure")


def _pool(subnet: Stored) -> Any:
    for pool in subnet["allocation_pools"]:
        address, last = ip_address(pool["start"]), ip_address(pool["end"])
        while address <= last:
            yield str(address)
            address += 1


def used(store: Store, subnet_id: str) -> set[str]:
    """Return all addresses of a subnet that ports have."""
    ports = store["ports"].values()
    return {fixed["ip_address"] for port in ports for fixed in port["fixed_ips"] if fixed["subnet_id"] == subnet_id}


def _is_slaac(subnet: Stored) -> bool:
    return subnet.get("ipv6_address_mode") in _SLAAC
