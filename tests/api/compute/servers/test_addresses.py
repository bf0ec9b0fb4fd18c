# SPDX-License-Identifier: Apache-2.0
"""Addresses and security groups in the views of servers."""

from api.compute_cloud import MAX_LIMIT, Cloud
from support.fake_neutron import FakeNeutron
from support.interfaces import interface

FIRST = interface("private", "10.0.0.5", "fd00::5", floating=("172.24.4.9",), security_groups=("default", "web"))
SECOND = interface("private", "10.0.0.6", mac="fa:16:3e:00:00:02", security_groups=("default",))
THIRD = interface("other", mac="fa:16:3e:00:00:03")


def shown(version: int, address: str, kind: str, mac: str) -> dict[str, object]:
    return {"version": version, "addr": address, "OS-EXT-IPS:type": kind, "OS-EXT-IPS-MAC:mac_addr": mac}


ADDRESSES = {
    "private": [
        shown(4, "10.0.0.5", "fixed", FIRST.mac),
        shown(6, "fd00::5", "fixed", FIRST.mac),
        shown(4, "10.0.0.6", "fixed", SECOND.mac),
        shown(4, "172.24.4.9", "floating", FIRST.mac),
    ],
    "other": [],
}


def test_a_server_has_its_addresses_by_network_with_floating_ones_last(networked: Cloud) -> None:
    server = networked.add_server(None)
    networked.set_interfaces(server, (FIRST, SECOND, THIRD))
    view = networked.member.get(f"/servers/{server}").body["server"]
    assert view["addresses"] == ADDRESSES
    assert list(view["addresses"]) == ["private", "other"]
    assert view["security_groups"] == [{"name": "default"}, {"name": "web"}, {"name": "default"}]


def test_a_server_without_interfaces_has_no_addresses_and_no_field_for_groups(networked: Cloud) -> None:
    view = networked.member.get(f"/servers/{networked.add_server(None)}").body["server"]
    assert view["addresses"] == {}
    assert "security_groups" not in view


def test_the_reply_to_an_update_shows_less_before_2_75(networked: Cloud) -> None:
    server = networked.add_server(None)
    networked.set_interfaces(server, (SECOND,))
    change = {"server": {"name": "new"}}
    before = networked.member.at("2.74").put(f"/servers/{server}", change).body["server"]
    assert before["addresses"] == {"private": [{"version": 4, "addr": "10.0.0.6"}]}
    assert "security_groups" not in before
    after = networked.member.at("2.75").put(f"/servers/{server}", change).body["server"]
    assert after["addresses"] == {"private": [shown(4, "10.0.0.6", "fixed", SECOND.mac)]}
    assert after["security_groups"] == [{"name": "default"}]


def test_a_list_with_addresses_asks_the_network_service_nothing(networked: Cloud, neutron: FakeNeutron) -> None:
    servers = [networked.add_server(None) for _ in range(MAX_LIMIT - 1)]
    for number, server in enumerate(servers):
        networked.set_interfaces(server, (interface("private", f"10.0.0.{number + 1}"),))
    networked.add_server(None)
    views = {each["id"]: each for each in networked.member.get("/servers/detail").body["servers"]}
    assert [views[server]["addresses"]["private"][0]["addr"] for server in servers] == [
        f"10.0.0.{number + 1}" for number in range(MAX_LIMIT - 1)
    ]
    assert not neutron.faults.calls
    assert "addresses" not in networked.member.get("/servers").body["servers"][0]
