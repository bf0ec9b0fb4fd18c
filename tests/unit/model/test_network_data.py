# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from typing import Any

from kilonova.model.network_data import (
    first_fixed_address,
    first_floating_address,
    network_data,
    tagged_devices,
)
from kilonova.model.network_info import FixedAddress, Route, Vif, VifNetwork, VifSubnet

NETWORK = VifNetwork(id="net-1", label="private", mtu=1442)
V4 = VifSubnet(
    id="sub-4",
    cidr="10.0.0.0/24",
    version=4,
    gateway="10.0.0.1",
    has_dhcp=False,
    dns=("10.0.0.2", "10.0.0.3"),
    routes=(Route("192.168.0.0/16", "10.0.0.9"),),
    addresses=(FixedAddress("10.0.0.5", ("172.24.4.9",)), FixedAddress("10.0.0.6")),
)
V6 = VifSubnet(
    id="sub-6",
    cidr="fd00::/64",
    version=6,
    gateway="fd00::1",
    dns=("10.0.0.2",),
    ipv6_address_mode="slaac",
    addresses=(FixedAddress("fd00::5"),),
)
VIF = Vif(
    port_id="7d3f2c44-0000-4000-8000-000000000001",
    mac="fa:16:3e:00:00:01",
    network=NETWORK,
    subnets=(V6, V4),
    vif_type="ovs",
)


def test_a_static_interface_has_addresses_routes_and_dns() -> None:
    assert network_data((VIF,)) == {
        "links": [
            {
                "id": "tap7d3f2c44-00",
                "vif_id": VIF.port_id,
                "type": "ovs",
                "mtu": 1442,
                "ethernet_mac_address": "fa:16:3e:00:00:01",
            }
        ],
        "networks": [
            {
                "id": "network0",
                "type": "ipv4",
                "link": "tap7d3f2c44-00",
                "network_id": "net-1",
                "ip_address": "10.0.0.5",
                "netmask": "255.255.255.0",
                "routes": [
                    {"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "10.0.0.1"},
                    {"network": "192.168.0.0", "netmask": "255.255.0.0", "gateway": "10.0.0.9"},
                ],
                "services": [{"type": "dns", "address": "10.0.0.2"}, {"type": "dns", "address": "10.0.0.3"}],
            },
            {
                "id": "network1",
                "type": "ipv6_slaac",
                "link": "tap7d3f2c44-00",
                "network_id": "net-1",
                "ip_address": "fd00::5",
                "netmask": "ffff:ffff:ffff:ffff::",
                "routes": [{"network": "::", "netmask": "::", "gateway": "fd00::1"}],
                "services": [{"type": "dns", "address": "10.0.0.2"}],
            },
        ],
        "services": [{"type": "dns", "address": "10.0.0.2"}, {"type": "dns", "address": "10.0.0.3"}],
    }


def test_with_dhcp_the_guest_asks_for_its_address() -> None:
    dhcp = replace(V4, has_dhcp=True, dhcp_server="10.0.0.2")
    data = network_data((replace(VIF, subnets=(dhcp,), vif_type="other"),))
    (network,), (link,) = data["networks"], data["links"]
    assert network == {"id": "network0", "type": "ipv4_dhcp", "link": link["id"], "network_id": "net-1"}
    assert (link["type"], link["mtu"]) == ("phy", None)
    stateful = replace(V6, ipv6_address_mode=None)
    assert network_data((replace(VIF, subnets=(stateful,)),))["networks"][0]["type"] == "ipv6_dhcp"


def test_interfaces_without_subnets_and_subnets_without_addresses_are_left_out() -> None:
    assert network_data(()) == {"links": [], "networks": [], "services": []}
    assert network_data((replace(VIF, subnets=()),)) == {"links": [], "networks": [], "services": []}
    empty = network_data((replace(VIF, subnets=(replace(V4, addresses=()),)),))
    assert (len(empty["links"]), empty["networks"]) == (1, [])
    isolated = network_data((replace(VIF, subnets=(replace(V4, gateway=None, routes=()),)),))
    assert isolated["networks"][0]["routes"] == []


def test_devices_are_the_tagged_interfaces() -> None:
    tagged = replace(VIF, tag="nic1", details={"vlan": 7}, profile={"trusted": "true"})
    device: dict[str, Any] = {"type": "nic", "bus": "none", "address": "none", "mac": VIF.mac, "tags": ["nic1"]}
    assert tagged_devices((VIF, tagged), "2016-06-30") == [device]
    assert tagged_devices((VIF, tagged), "2017-02-22") == [{**device, "vlan": 7}]
    assert tagged_devices((VIF, tagged), "2018-08-27") == [{**device, "vlan": 7, "vf_trusted": True}]


def test_first_addresses() -> None:
    assert first_fixed_address((VIF,)) == "10.0.0.5"
    assert first_floating_address((VIF,)) == "172.24.4.9"
    assert (first_fixed_address(()), first_floating_address(())) == ("", "")
