# SPDX-License-Identifier: Apache-2.0
"""Description of a guest's interfaces in the guest's metadata: ``network_data.json``, devices, and EC2's addresses.

Source: the format of ``network_data.json``, version 2015-10-15, as Nova writes it. It lists only the first IPv4 subnet
and the first IPv6 subnet of each interface.
"""

from collections.abc import Iterable, Iterator
from ipaddress import ip_network
from typing import Any

from kilonova.model.network_info import NetworkInfo, Vif, VifSubnet

#: Values of ``binding:vif_type`` that are shown as the type of a link; all other links are "phy".
_SHOWN_TYPES = frozenset({"bridge", "dvs", "hw_veb", "hyperv", "ovs", "tap", "vhostuser", "vif"})
_ANY = {4: "0.0.0.0", 6: "::"}  # noqa: S104 - destination and netmask of the default route
#: Versions of the metadata since which the description of a device has these fields.
_VLAN, _TRUSTED = "2017-02-22", "2018-08-27"


def network_data(info: NetworkInfo) -> dict[str, Any]:
    """Return the contents of ``network_data.json``: links, networks, and services such as DNS."""
    links: list[dict[str, Any]] = []
    networks: list[dict[str, Any]] = []
    services: list[dict[str, str]] = []
    for vif in info:
        if not vif.subnets:
            continue
        links.append(_link(vif))
        for subnet in _first_of_each_version(vif.subnets):
            networks.append(_network(vif, subnet, f"network{len(networks)}"))
            services += [each for each in _dns(subnet) if each not in services]
    return {"links": links, "networks": networks, "services": services}


def tagged_devices(info: NetworkInfo, version: str) -> list[dict[str, Any]]:
    """Return the interfaces with a device tag, for the field ``devices`` of ``meta_data.json``.

    ``version``: of the metadata. The buses of the devices are unknown before the guest is created.
    """
    return [_device(vif, version) for vif in info if vif.tag is not None]


def first_fixed_address(info: NetworkInfo) -> str:
    """Return the first fixed IPv4 address, or "" if there is none."""
    return next((fixed.address for vif in info for subnet, fixed in vif.addresses if subnet.version == 4), "")


def first_floating_address(info: NetworkInfo) -> str:
    """Return the first floating address, or "" if there is none."""
    return next((outer for vif in info for _, fixed in vif.addresses for outer in fixed.floating), "")


def _link(vif: Vif) -> dict[str, Any]:
    has_dhcp_server = any(subnet.dhcp_server for subnet in vif.subnets)
    return {
        "id": vif.device_name,
        "vif_id": vif.port_id,
        "type": vif.vif_type if vif.vif_type in _SHOWN_TYPES else "phy",
        "mtu": None if has_dhcp_server else vif.network.mtu,  # the DHCP server announces the MTU
        "ethernet_mac_address": vif.mac,
    }


def _first_of_each_version(subnets: Iterable[VifSubnet]) -> Iterator[VifSubnet]:
    for version in _ANY:
        found = next((subnet for subnet in subnets if subnet.version == version), None)
        if found is not None and found.addresses:
            yield found


def _network(vif: Vif, subnet: VifSubnet, name: str) -> dict[str, Any]:
    network = {"id": name, "type": f"ipv{subnet.version}", "link": vif.device_name, "network_id": vif.network.id}
    if subnet.ipv6_address_mode is not None:
        network["type"] += f"_{subnet.ipv6_address_mode}"
    elif subnet.has_dhcp:
        return {**network, "type": f"{network['type']}_dhcp"}
    return {
        **network,
        "ip_address": subnet.addresses[0].address,
        "netmask": str(ip_network(subnet.cidr).netmask),
        "routes": list(_routes(subnet)),
        "services": _dns(subnet),
    }


def _routes(subnet: VifSubnet) -> Iterator[dict[str, str]]:
    if subnet.gateway is not None:
        everywhere = _ANY[subnet.version]
        yield {"network": everywhere, "netmask": everywhere, "gateway": subnet.gateway}
    for route in subnet.routes:
        target = ip_network(route.destination, strict=False)
        yield {"network": str(target.network_address), "netmask": str(target.netmask), "gateway": route.next_hop}


def _dns(subnet: VifSubnet) -> list[dict[str, str]]:
    return [{"type": "dns", "address": address} for address in subnet.dns]


def _device(vif: Vif, version: str) -> dict[str, Any]:
    device: dict[str, Any] = {"type": "nic", "bus": "none", "address": "none", "mac": vif.mac, "tags": [vif.tag]}
    vlan = vif.details.get("vlan")
    if version >= _VLAN and vlan is not None:
        device["vlan"] = vlan
    if version >= _TRUSTED:
        device["vf_trusted"] = str(vif.profile.get("trusted", "")).lower() == "true"
    return device
