# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from api.compute_cloud import Cloud
from api.compute_proxies import UNKNOWN, check_proxies
from kilonova.api.compute import security_group_rules
from support.api_client import Answer
from support.fake_neutron import FakeNeutron

_PATH = "/os-security-group-rules"
_SSH = {"ip_protocol": "tcp", "from_port": 22, "to_port": 22, "cidr": "10.0.0.0/8"}


@pytest.fixture
def group(networked: Cloud) -> str:
    """A group without rules."""
    body = {"security_group": {"name": "web", "description": ""}}
    made: str = networked.member.post("/os-security-groups", body).body["security_group"]["id"]
    return made


def add(cloud: Cloud, group: str, **rule: Any) -> Answer:
    return cloud.member.post(_PATH, {"security_group_rule": {"parent_group_id": group, **rule}})


def test_without_a_network_service_there_are_no_rules(cloud: Cloud) -> None:
    check_proxies(cloud, security_group_rules.ROUTES, {"security_group_rule": {"parent_group_id": UNKNOWN}})


def test_a_rule_is_added_and_removed(networked: Cloud, group: str) -> None:
    answer = add(networked, group, **_SSH)
    made = answer.body["security_group_rule"]
    view = {"parent_group_id": group, "ip_protocol": "tcp", "from_port": 22, "to_port": 22, "group": {}}
    assert (answer.status, made) == (200, {"id": made["id"], "ip_range": {"cidr": "10.0.0.0/8"}, **view})
    assert networked.member.get(f"/os-security-groups/{group}").body["security_group"]["rules"] == [made]
    assert networked.member.delete(f"{_PATH}/{made['id']}").status == 202
    answer = networked.member.delete(f"{_PATH}/{made['id']}")
    assert (answer.status, answer.fault[1]) == (404, f"Security group rule {made['id']} does not exist")
    assert networked.member.get(f"/os-security-groups/{group}").body["security_group"]["rules"] == []


@pytest.mark.parametrize(
    ("asked", "stored", "shown"),
    [
        ({"ip_protocol": "udp", "from_port": "1", "to_port": "99"}, ("IPv4", "udp", 1, 99, "0.0.0.0/0"), (1, 99)),
        (
            {"ip_protocol": "icmp", "from_port": -1, "to_port": -1, "cidr": "fd00::/8"},
            ("IPv6", "icmp", None, None, "fd00::/8"),
            (-1, -1),
        ),
        (
            {"ip_protocol": "ICMP", "from_port": 8, "to_port": 0, "cidr": ""},
            ("IPv4", "icmp", 8, 0, "0.0.0.0/0"),
            (8, 0),
        ),
        (
            {"ip_protocol": "tcp", "from_port": 1, "to_port": 1, "cidr": "::%2F0"},
            ("IPv6", "tcp", 1, 1, "::/0"),
            (1, 1),
        ),
    ],
)
def test_protocols_ranges_and_networks(
    networked: Cloud, neutron: FakeNeutron, group: str, asked: Any, stored: tuple[Any, ...], shown: tuple[int, int]
) -> None:
    made = add(networked, group, **asked).body["security_group_rule"]
    rule = neutron.store["security-group-rules"][made["id"]]
    names = ("ethertype", "protocol", "port_range_min", "port_range_max", "remote_ip_prefix")
    assert tuple(rule[name] for name in names) == stored
    assert (made["from_port"], made["to_port"]) == shown


@pytest.mark.parametrize(
    ("asked", "protocol", "shown"),
    [
        ({}, None, (None, None)),
        ({"ip_protocol": "tcp"}, "tcp", (1, 65535)),
        ({"ip_protocol": "icmp"}, "icmp", (-1, -1)),
        ({"ip_protocol": "gre"}, None, (None, None)),
        ({"ip_protocol": "udp", "from_port": 53, "to_port": 53, "cidr": "ignored"}, "udp", (53, 53)),
    ],
)
def test_the_source_may_be_a_group(
    networked: Cloud, group: str, asked: Any, protocol: str | None, shown: tuple[int | None, int | None]
) -> None:
    made = add(networked, group, group_id=group, **asked).body["security_group_rule"]
    assert (made["group"], made["ip_range"]) == ({"name": "web", "tenant_id": "wonder"}, {})
    assert (made["ip_protocol"], made["from_port"], made["to_port"]) == (protocol, *shown)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"ip_protocol": None}, "Not enough parameters to build a valid rule."),
        ({"from_port": None}, "Not enough parameters to build a valid rule."),
        ({"to_port": None}, "Not enough parameters to build a valid rule."),
        ({"from_port": "x"}, "Invalid input received: To and From ports must be integers"),
        ({"to_port": [1]}, "Invalid input received: To and From ports must be integers"),
        (
            {"ip_protocol": "icmp", "to_port": "x"},
            "Invalid input received: Type and Code must be integers for ICMP protocol type",
        ),
        ({"ip_protocol": "gre"}, "Invalid IP protocol gre."),
        ({"ip_protocol": 6}, "Invalid IP protocol 6."),
        ({"from_port": 23}, "Invalid port range 23:22. Former value cannot be greater than the later"),
        ({"from_port": 0}, "Invalid port range 0:22. Valid TCP ports should be between 1-65535"),
        ({"to_port": 65536}, "Invalid port range 22:65536. Valid TCP ports should be between 1-65535"),
        ({"ip_protocol": "icmp", "to_port": 256}, "Invalid port range 22:256. For ICMP, the type:code must be valid"),
        ({"cidr": "10.0.0.0"}, "10.0.0.0 is not a valid IP network."),
        ({"cidr": "10.0.0.0/33"}, "10.0.0.0/33 is not a valid IP network."),
        ({"cidr": 10}, "10 is not a valid IP network."),
        ({"cidr": "10.0.0.0/0"}, "Bad prefix for network in cidr 10.0.0.0/0"),
        ({"cidr": "fd00::/0"}, "Bad prefix for network in cidr fd00::/0"),
    ],
)
def test_invalid_rules(networked: Cloud, neutron: FakeNeutron, group: str, changed: Any, words: str) -> None:
    answer = add(networked, group, **(_SSH | changed))
    assert (answer.status, answer.fault[1]) == (400, words)
    assert neutron.faults.count("POST security-group-rules") == 0


def test_a_rule_that_the_group_has(networked: Cloud, group: str) -> None:
    assert add(networked, group, **_SSH).status == 200
    answer = add(networked, group, **_SSH)
    assert (answer.status, answer.fault[1]) == (400, f"This rule already exists in group {group}")
    assert add(networked, group, group_id=group).status == 200
    answer = add(networked, group, group_id=group)
    assert answer.status == 403, "Nova takes every conflict in Neutron for an exceeded quota"
    assert "already exists" in answer.fault[1]


def test_groups_of_a_rule_must_exist(networked: Cloud, group: str) -> None:
    for unknown in ({"group": UNKNOWN}, {"group": group, "group_id": UNKNOWN}):
        answer = add(networked, **unknown)
        assert (answer.status, answer.fault[1]) == (404, f"Security group {UNKNOWN} does not exist")
    for field in ("parent_group_id", "group_id"):
        assert add(networked, group, **(_SSH | {field: "web"})).status == 400
    assert networked.member.post(_PATH, {"security_group_rule": _SSH}).status == 400


def test_foreign_and_malformed_ids(networked: Cloud, group: str) -> None:
    made = add(networked, group, **_SSH).body["security_group_rule"]["id"]
    assert networked.as_user("mallory", "elsewhere").delete(f"{_PATH}/{made}").status == 404
    assert networked.as_user("alice", "wonder", "reader").delete(f"{_PATH}/{made}").status == 403
    answer = networked.member.delete(f"{_PATH}/ssh")
    assert (answer.status, answer.fault[1]) == (400, "Security group id should be uuid")
    assert networked.member.at("2.36").delete(f"{_PATH}/{made}").status == 404
