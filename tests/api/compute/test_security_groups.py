# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from api.compute_cloud import MAX_LIMIT, Cloud
from api.compute_proxies import UNKNOWN, check_pages, check_proxies
from kilonova.api.compute import security_groups
from support.api_client import Client
from support.fake_neutron import FakeNeutron

_PATH = "/os-security-groups"


def body(name: str = "web", description: str = "Web servers") -> dict[str, Any]:
    return {"security_group": {"name": name, "description": description}}


def create(client: Client, name: str = "web") -> dict[str, Any]:
    answer = client.post(_PATH, body(name))
    assert answer.status == 200, answer.body
    made: dict[str, Any] = answer.body["security_group"]
    return made


def names(client: Client, query: str = "") -> list[str]:
    return [each["name"] for each in client.get(f"{_PATH}{query}").body["security_groups"]]


def test_without_a_network_service_there_are_no_groups(cloud: Cloud) -> None:
    check_proxies(cloud, security_groups.ROUTES, body())
    check_pages(cloud, _PATH)


def test_a_group_is_created_changed_and_deleted(networked: Cloud) -> None:
    made = create(networked.member)
    view = {"id": made["id"], "name": "web", "description": "Web servers", "tenant_id": "wonder", "rules": []}
    assert made == view
    path = f"{_PATH}/{made['id']}"
    assert networked.member.get(path).body == {"security_group": view}
    changed = networked.member.put(path, body("www", ""))
    assert (changed.status, changed.body) == (200, {"security_group": view | {"name": "www", "description": ""}})
    assert names(networked.member) == ["default", "www"]
    assert networked.member.delete(path).status == 202
    answer = networked.member.get(path)
    assert (answer.status, answer.fault[1]) == (404, f"Security group {made['id']} does not exist")


def test_rules_are_those_of_ingress_with_their_source(networked: Cloud, neutron: FakeNeutron) -> None:
    made, foreign = create(networked.member), create(networked.as_user("mallory", "elsewhere"), "theirs")

    def add(**values: Any) -> str:
        rule = {"security_group_id": made["id"], "direction": "ingress", **values}
        return str(neutron.create("security-group-rules", rule)["id"])

    (default,) = (each for each in networked.member.get(_PATH).body["security_groups"] if each["name"] == "default")
    ssh = add(protocol="tcp", port_range_min=22, port_range_max=22, remote_ip_prefix="10.0.0.0/8")
    ping, tcp = add(protocol="icmp"), add(protocol="tcp", remote_group_id=default["id"])
    add(protocol="udp", remote_group_id=foreign["id"])  # a source that the user cannot see
    everything = add()

    shown = networked.member.get(f"{_PATH}/{made['id']}").body["security_group"]

    group, parent = {"name": "default", "tenant_id": "wonder"}, {"parent_group_id": made["id"]}
    anywhere = {"ip_range": {"cidr": "0.0.0.0/0"}, "group": {}, **parent}
    assert sorted(shown["rules"], key=lambda each: str(each["id"])) == sorted(
        [
            {"id": ssh, "ip_protocol": "tcp", "from_port": 22, "to_port": 22, **anywhere}
            | {"ip_range": {"cidr": "10.0.0.0/8"}},
            {"id": ping, "ip_protocol": "icmp", "from_port": -1, "to_port": -1, **anywhere},
            {
                "id": tcp,
                "ip_protocol": "tcp",
                "from_port": 1,
                "to_port": 65535,
                "group": group,
                "ip_range": {},
                **parent,
            },
            {"id": everything, "ip_protocol": None, "from_port": None, "to_port": None, **anywhere},
        ],
        key=lambda each: str(each["id"]),
    )
    assert [each["group"] for each in default["rules"]] == [group, group], "the default group's own rules"
    assert shown in networked.member.get(_PATH).body["security_groups"]


def test_lists_are_of_the_project_or_for_administrators_of_all(networked: Cloud) -> None:
    create(networked.member)
    create(networked.as_user("mallory", "elsewhere"), "theirs")
    assert names(networked.member, "?all_tenants=1") == ["default", "web"]
    assert names(networked.admin) == ["default"]
    everything = names(networked.admin, "?all_tenants=1")
    assert sorted(everything) == ["default", "default", "default", "theirs", "web"]


def test_pages_of_a_list(networked: Cloud) -> None:
    for name in "fedcba":
        create(networked.member, name)
    assert names(networked.member) == ["a", "b", "c", "d", "default"][:MAX_LIMIT]
    assert names(networked.member, "?limit=2&offset=1") == ["b", "c"]
    assert names(networked.member, "?limit=0&offset=5") == ["e", "f"]
    assert names(networked.member, "?offset=99") == []
    check_pages(networked, _PATH)


def test_groups_in_use_and_the_default_group_stay(networked: Cloud, neutron: FakeNeutron) -> None:
    made = create(networked.member)
    network = neutron.make_network("own", "wonder")
    neutron.make_port(network, "wonder", security_groups=[made["id"]])
    answer = networked.member.delete(f"{_PATH}/{made['id']}")
    assert (answer.status, answer.fault[1]) == (400, f"Security Group {made['id']} in use.")
    (default,) = (each for each in networked.member.get(_PATH).body["security_groups"] if each["name"] == "default")
    assert networked.member.delete(f"{_PATH}/{default['id']}").status == 400
    answer = networked.member.put(f"{_PATH}/{default['id']}", body())
    assert (answer.status, answer.fault[1]) == (400, "Updating default security group not allowed.")


def test_quota(networked: Cloud, neutron: FakeNeutron) -> None:
    create(networked.member)
    neutron.set_quota("wonder", security_group=2)
    answer = networked.member.post(_PATH, body("more"))
    assert (answer.status, answer.fault[1]) == (403, "Quota exceeded for resources: ['security_group'].")
    assert networked.member.post(_PATH, body("default")).status == 403


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", None), ("name", 1), ("name", "n" * 256), ("description", None), ("description", "d" * 256)],
)
def test_invalid_bodies(networked: Cloud, field: str, value: Any) -> None:
    made, wrong = create(networked.member), body("x")
    wrong["security_group"][field] = value
    for answer in (networked.member.post(_PATH, wrong), networked.member.put(f"{_PATH}/{made['id']}", wrong)):
        assert answer.status == 400
        assert field in answer.fault[1]
    del wrong["security_group"][field]
    assert networked.member.post(_PATH, wrong).status == 400


def test_unknown_foreign_and_malformed_ids(networked: Cloud) -> None:
    foreign = create(networked.as_user("mallory", "elsewhere"))["id"]
    for method, sent in (("GET", None), ("PUT", body()), ("DELETE", None)):
        for group_id in (UNKNOWN, foreign):
            answer = networked.member.send(method, f"{_PATH}/{group_id}", sent)
            assert (answer.status, answer.fault[1]) == (404, f"Security group {group_id} does not exist")
        answer = networked.member.send(method, f"{_PATH}/web", sent)
        assert (answer.status, answer.fault[1]) == (400, "Security group id should be uuid")


def test_readers_change_nothing(networked: Cloud) -> None:
    path, reader = f"{_PATH}/{create(networked.member)['id']}", networked.as_user("alice", "wonder", "reader")
    assert reader.get(path).status == 200
    assert [reader.post(_PATH, body()).status, reader.put(path, body()).status, reader.delete(path).status] == [403] * 3
    assert networked.member.at("2.36").get(path).status == 404
