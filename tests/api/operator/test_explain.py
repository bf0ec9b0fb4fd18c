# SPDX-License-Identifier: Apache-2.0
"""POST /operator/v1/explain: what would happen, while nothing happens."""

from dataclasses import replace
from typing import Any

import pytest

from support.api_client import Answer, Client
from support.control import IMAGE, Control, NewControl
from support.mirrors import hosts_of

BIG = {"vcpus": 1, "ram": 10_000}


@pytest.fixture(scope="module")
def operator(new_shared_control: NewControl) -> Client:
    """A client of a cloud that no test changes."""
    started = new_shared_control()
    return started.operator


def ask(operator: Client, flavor: Any = "1", query: str = "", **body: Any) -> Answer:
    return operator.post(f"/explain{query}", {"flavor": flavor, **body})


def told(operator: Client, flavor: Any = "1", query: str = "", **body: Any) -> dict[str, Any]:
    answer = ask(operator, flavor, query, **body)
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.body
    return found


def test_a_request_that_fits(operator: Client) -> None:
    found = told(operator, "1", image=IMAGE)
    assert found["fits"]
    (server,) = found["servers"]
    assert server["chosen"] == "node1"
    assert [host["host"] for host in server["ranked"]] == ["node1", "node2"]
    assert server["steps"][-1] == {
        "rule": "ServerGroupAffinityFilter",
        "reason": "holds no member of the server group",
        "hosts_in": 2,
        "hosts_out": 2,
    }
    assert found["nearest_miss"] == []
    assert [(host["host"], host["passed"], host["reasons"]) for host in found["hosts"]] == [
        ("node1", True, []),
        ("node2", True, []),
    ]


@pytest.mark.parametrize(("flavor", "image"), [("flavor1", "cirros"), ("1", IMAGE), ("1", {"properties": {"a": "b"}})])
def test_flavor_and_image_by_id_or_name(operator: Client, flavor: str, image: Any) -> None:
    assert told(operator, flavor, image=image)["fits"]


def test_what_it_says_is_what_happens(control: Control) -> None:
    operator = control.operator
    found = told(operator, "1", image=IMAGE, count=3)
    servers = [server["chosen"] for server in found["servers"]]
    answer = control.ask(control.admin, min_count=3)
    assert answer.status == 202
    control.settle()
    listed = control.admin.get("/servers/detail").body["servers"]
    placed = [server["OS-EXT-SRV-ATTR:host"] for server in sorted(listed, key=lambda one: one["name"])]
    assert placed == servers
    assert len(set(servers)) == 2


def test_nothing_changes(control: Control) -> None:
    """Not a row, nothing in the mirror, not the state of chance."""
    operator = control.operator
    control.add_flavor("9", vcpus=9)
    group = control.admin.post("/os-server-groups", {"server_group": {"name": "g", "policy": "affinity"}})
    process, claimer = control.process, control.process.conductor.claimer
    before = control.everything()
    chance = str(claimer._rng.bit_generator.state)
    seen = [{**facts, "last_seen": 0} for facts in hosts_of(process.mirror.snapshot())]
    memo = list(process.mirror._state.memo._answers)
    for body in ({"flavor": "1", "count": 5}, {"flavor": "9"}, {"flavor": BIG, "hints": {"cidr": "/8"}}):
        assert operator.post("/explain", {**body, "image": IMAGE}).status == 200
    known = group.body["server_group"]["id"]
    assert told(operator, "1", group=known, project_id="admin", count=2)["fits"]
    assert control.everything() == before
    assert str(claimer._rng.bit_generator.state) == chance
    assert [{**facts, "last_seen": 0} for facts in hosts_of(process.mirror.snapshot())] == seen
    assert list(process.mirror._state.memo._answers) == memo
    assert process.mirror.group(known).hosts == {}
    assert not process.mirror.assumed()


def test_a_request_that_does_not_fit_says_what_would_do(operator: Client) -> None:
    found = told(operator, {"vcpus": 200, "ram": 512})
    assert not found["fits"]
    assert found["servers"][0]["chosen"] is None
    (lost,) = [rule for rule in found["rules"] if rule["failed"]]
    assert lost == {
        "rule": "Placement: VCPU",
        "reason": "cannot give 200 VCPU",
        "passed": 0,
        "failed": 2,
        "only_hindrance": 2,
    }
    best = found["nearest_miss"][0]
    assert (best["host"], best["fitting"]) == ("node1", 2)
    (change,) = best["changes"]
    assert {name: change[name] for name in ("change", "of", "name", "from", "to")} == {
        "change": "resource",
        "of": "request",
        "name": "VCPU",
        "from": 200,
        "to": 8,
    }
    assert told(operator, {"vcpus": change["to"], "ram": 512})["fits"]


def test_the_server_that_finds_no_host_is_the_one_explained(operator: Client) -> None:
    found = told(operator, BIG, count=5)
    assert not found["fits"]
    assert [server["chosen"] for server in found["servers"]] == ["node1", "node2", None]
    assert found["explained_server"] == 3
    assert {host["reasons"][0]["rule"] for host in found["hosts"]} == {"Placement: MEMORY_MB"}
    assert found["nearest_miss"][0]["changes"][0]["name"] == "MEMORY_MB"


def test_servers_of_an_anti_affinity_group_are_kept_apart(control: Control) -> None:
    operator = control.operator
    made = control.admin.post("/os-server-groups", {"server_group": {"name": "g", "policy": "anti-affinity"}})
    group = made.body["server_group"]["id"]
    for given in ({"group": group}, {"hints": {"group": group}}, {"hints": {"group": [group]}}):
        found = told(operator, "1", count=3, project_id="admin", **given)
        assert [server["chosen"] for server in found["servers"]] == ["node1", "node2", None]
        assert found["nearest_miss"][0]["changes"][0]["change"] == "group"


def test_a_page_of_hosts(operator: Client) -> None:
    first = told(operator, "1", "?limit=1")
    assert [host["host"] for host in first["hosts"]] == ["node1"]
    assert first["next_marker"] == first["hosts"][0]["id"]
    assert first["matching_hosts"] == 2
    rest = told(operator, "1", f"?limit=1&marker={first['next_marker']}")
    assert [host["host"] for host in rest["hosts"]] == ["node2"]
    assert rest["next_marker"] is None


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?host=ODE2", ["node2"]),
        ("?passed=false", ["node1"]),
        ("?passed=true", ["node2"]),
        ("?rule=ignore_hosts", []),
        ("?rule=ComputeFilter&passed=false", ["node1"]),
        ("?limit=0", []),
    ],
)
def test_hosts_are_filtered(control: Control, query: str, expected: list[str]) -> None:
    operator = control.operator
    services = control.admin.get("/os-services?host=node1").body["services"]
    control.admin.put(f"/os-services/{services[0]['id']}", {"status": "disabled"})
    assert [host["host"] for host in told(operator, "1", query)["hosts"]] == expected


def test_a_zone_may_force_a_host(operator: Client) -> None:
    found = told(operator, "1", availability_zone="nova:node2")
    assert found["servers"][0]["forced"]
    assert found["servers"][0]["chosen"] == "node2"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "flavor"),
        ({"flavor": "nope"}, "flavor"),
        ({"flavor": {"vcpus": 1}}, "flavor"),
        ({"flavor": {"vcpus": 0, "ram": 1}}, "flavor"),
        ({"flavor": "1", "image": "nope"}, "image"),
        ({"flavor": "1", "image": 7}, "image"),
        ({"flavor": "1", "count": 0}, "count"),
        ({"flavor": "1", "count": 100_000}, "count"),
        ({"flavor": "1", "hints": {"a": 1}}, "hints.a"),
        ({"flavor": "1", "group": "nope"}, "group"),
        ({"flavor": "1", "availability_zone": "nova:nowhere"}, "availability_zone"),
        ({"flavor": "1", "availability_zone": "a:b:c:d"}, "availability_zone"),
        ({"flavor": "1", "availability_zone": "mars"}, "availability zone"),
        ({"flavor": "1", "surprise": 1}, "surprise"),
    ],
)
def test_bad_input_names_the_field(operator: Client, body: dict[str, Any], field: str) -> None:
    answer = operator.post("/explain", body)
    name, message = answer.fault
    assert (answer.status, name) == (400, "badRequest")
    assert field in message


@pytest.mark.parametrize("query", ["?limit=x", "?limit=-1", "?passed=maybe", "?marker=nobody"])
def test_bad_parameters_are_named(operator: Client, query: str) -> None:
    answer = ask(operator, "1", query)
    assert answer.status == 400
    assert query[1:].split("=", maxsplit=1)[0] in answer.fault[1]


def test_a_group_of_another_project_cannot_be_asked_about(control: Control) -> None:
    operator = control.operator
    made = control.member.post("/os-server-groups", {"server_group": {"name": "g", "policy": "affinity"}})
    group = made.body["server_group"]["id"]
    assert told(operator, "1", group=group)["fits"]
    answer = ask(operator, "1", group=group, project_id="other")
    assert answer.status == 400
    assert "group" in answer.fault[1]


def test_it_is_for_administrators(operator: Client) -> None:
    assert ask(replace(operator, token="alice:wonder")).status == 403


@pytest.mark.parametrize(
    ("extra_specs", "properties", "named"),
    [
        ({}, {"hw_vif_model": "e1001"}, "hw_vif_model=e1001"),
        ({"hw:sound_model": "banjo"}, {}, "hw:sound_model"),
        ({"hw:mem_encryption": "true"}, {"hw_mem_encryption": "false"}, "hw:mem_encryption"),
        ({"hw:tpm_version": "1.2", "hw:tpm_model": "tpm-crb"}, {}, "tpm-crb"),
        ({"hw:numa_nodes": "none"}, {}, "hw:numa_nodes"),
        ({"pci_passthrough:alias": "gpu:1"}, {}, "gpu"),
    ],
)
def test_what_create_refuses_is_refused(
    operator: Client, extra_specs: dict[str, str], properties: dict[str, str], named: str
) -> None:
    answer = ask(operator, {"vcpus": 1, "ram": 64, "extra_specs": extra_specs}, image={"properties": properties})
    assert answer.status == 400
    assert named in answer.body["badRequest"]["message"]
