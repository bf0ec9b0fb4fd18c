# SPDX-License-Identifier: Apache-2.0
"""Filters of the list of servers by address."""

from typing import Any
from urllib.parse import quote

import pytest

from api.compute_cloud import Cloud
from support.api_client import Client
from support.interfaces import interface

ADDRESSES: dict[str, tuple[str, ...]] = {
    "web": ("10.0.0.5", "fd00::5"),
    "db": ("10.0.0.15", "10.0.1.5"),
    "six": ("fd00::15",),
    "none": (),
    "long": ("10.9.9.9",),
}


@pytest.fixture
def servers(networked: Cloud) -> Cloud:
    for name, addresses in ADDRESSES.items():
        uuid = networked.add_server(None, name=name)
        if addresses:
            networked.set_interfaces(uuid, (interface("private", *addresses, floating=(f"172.24.4.{len(name)}",)),))
    return networked


def names(client: Client, query: str) -> set[str]:
    listed = client.get(f"/servers?{query}").body["servers"]
    detailed = client.get(f"/servers/detail?{query}").body["servers"]
    assert [each["name"] for each in listed] == [each["name"] for each in detailed]
    assert len(listed) == len({each["id"] for each in listed})
    return {each["name"] for each in listed}


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("10.0.0.5", {"web"}),
        ("10.0.0", {"web", "db"}),
        ("0.5", {"web"}),
        (r"^10\.0\.0\.5$", {"web"}),
        (r"\.1?5$", {"web", "db"}),
        ("10.0.0.(5|15)", {"web", "db"}),
        ("172.24.4.4", {"long"}),
        ("fd00", set()),
        ("FD00", set()),
        ("8.8.8.8", set()),
        ("%", set()),
        ("_", set()),
    ],
)
def test_ip_is_a_regular_expression_for_a_part_of_an_ipv4_address(servers: Cloud, pattern: str, found: Any) -> None:
    assert names(servers.member, f"ip={quote(pattern)}") == found


@pytest.mark.parametrize(
    ("pattern", "found"), [("fd00::5", {"web"}), ("fd00", {"web", "six"}), ("5$", {"web", "six"}), ("10.0", set())]
)
def test_ip6_is_a_regular_expression_for_a_part_of_an_ipv6_address(servers: Cloud, pattern: str, found: Any) -> None:
    assert names(servers.member.at("2.5"), f"ip6={quote(pattern)}") == found
    assert names(servers.member.at("2.4"), f"ip6={quote(pattern)}") == set(ADDRESSES)
    assert names(servers.admin.at("2.1"), f"all_tenants=1&ip6={quote(pattern)}") == found


def test_one_of_two_address_filters_is_enough(servers: Cloud) -> None:
    assert names(servers.member.at("2.5"), "ip=10.0.1&ip6=fd00::15") == {"db", "six"}


def test_an_address_filter_goes_with_others_and_with_pages(servers: Cloud) -> None:
    member = servers.member.at("2.100")
    assert names(member, "ip=10.0&name=^w") == {"web"}
    assert names(member, "ip=10.0&changes-since=2000-01-01T00:00:00Z&not-tags=x") == {"web", "db"}
    assert names(member, "ip=10.0&status=ERROR") == set()
    walked, query = [], "/servers?ip=10.0&limit=1"
    while query:
        page = member.get(query).body
        walked += [each["name"] for each in page["servers"]]
        following = page.get("servers_links", [{"href": ""}])[0]["href"]
        query = following and "/servers?" + following.partition("?")[2]
    assert walked == ["db", "web"]


def test_a_bad_expression_is_refused_by_name(servers: Cloud) -> None:
    for name in ("ip", "ip6"):
        answer = servers.member.at("2.5").get(f"/servers?{name}=(")
        assert answer.status == 400
        assert f"Invalid filter {name}:" in answer.fault[1]


def test_a_deleted_server_has_no_address(servers: Cloud) -> None:
    uuid = servers.add_server(None, name="old")
    servers.set_interfaces(uuid, (interface("private", "10.0.0.99"),))
    servers.remove_server(uuid)
    assert names(servers.member, "ip=10.0.0.99") == set()


def test_without_a_network_service_no_server_has_an_address(cloud: Cloud) -> None:
    cloud.add_server(None)
    assert names(cloud.member, "ip=10") == set()
    assert names(cloud.member, "ip=(") == set()
