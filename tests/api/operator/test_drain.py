# SPDX-License-Identifier: Apache-2.0
"""POST /operator/v1/drain: the plan is carried out through the compute API, and every move is accepted."""

from typing import Any

import pytest

from support.api_client import Client
from support.control import Control, NewControl
from support.plans_over_http import carry_out, host_of

SCENARIO = """
images: [{name: cirros}]
hosts:
  - {name: node1, vcpus: 4, memory_mib: 8192}
  - {name: node2, vcpus: 4, memory_mib: 8192}
  - {name: node3, vcpus: 4, memory_mib: 8192}
"""


def told(control: Control, **body: Any) -> dict[str, Any]:
    answer = control.operator.post("/drain", body)
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.body
    return found


def boot(control: Control, host: str, **more: Any) -> str:
    server = control.boot(control.admin, host=host, **more)
    assert server["status"] == "ACTIVE"
    return str(server["id"])


@pytest.mark.parametrize("how", ["live", "cold", "either"])
def test_a_plan_is_carried_out(new_control: NewControl, how: str) -> None:
    control = new_control(scenario=SCENARIO)
    body = {"server_group": {"name": "g", "policy": "anti-affinity"}}
    group = control.admin.post("/os-server-groups", body).body["server_group"]["id"]
    servers = [boot(control, "node1", hints={"group": group}), *(boot(control, "node1") for _ in range(3))]
    apart = boot(control, "node2", hints={"group": group})
    found = told(control, hosts=["node1"], how=how, limits={"per_host": 2})
    assert {move["server"] for move in found["moves"]} == set(servers)
    assert found["stays"] == []
    assert found["seq"] > 0
    assert found["waves"] == 2
    assert all(move["live"] == (how != "cold") and move["from"] == "node1" for move in found["moves"])
    carry_out(control, found["moves"])
    assert host_of(control, servers[0]) != host_of(control, apart)
    assert told(control, hosts=["node1"])["moves"] == []


def test_servers_that_stay_have_a_reason(new_control: NewControl) -> None:
    control = new_control(scenario=SCENARIO)
    body = {"server_group": {"name": "g", "policy": "affinity"}}
    group = control.admin.post("/os-server-groups", body).body["server_group"]["id"]
    together = [boot(control, "node1", hints={"group": group}) for _ in range(2)]
    locked = boot(control, "node1")
    assert control.admin.post(f"/servers/{locked}/action", {"lock": None}).status == 202
    found = told(control, hosts=["node1"], how="live")
    reasons = {stay["server"]: stay["reason"] for stay in found["stays"]}
    assert set(reasons) == {*together, locked}
    assert reasons[locked] == "the server is locked"
    assert all("affinity" in reasons[server] for server in together)
    assert all(stay["host"] == "node1" for stay in found["stays"])
    assert told(control, hosts=["node1"], locked=True)["moves"][0]["server"] == locked


def test_a_full_cloud_names_the_rules_and_the_smallest_change(new_control: NewControl) -> None:
    control = new_control(scenario=SCENARIO)
    control.add_flavor("4", name="wide", vcpus=1, ram=5000)
    wide = boot(control, "node1", flavorRef="4")
    for host in ("node2", "node3"):
        boot(control, host, flavorRef="4")
    (stay,) = told(control, hosts=["node1"])["stays"]
    assert (stay["server"], stay["reason"]) == (wide, "no host can take the server")
    assert {"rule": "Placement: MEMORY_MB", "reason": "cannot give 5000 MEMORY_MB", "hosts": 2} in stay["rules"]
    assert stay["nearest_miss"][0]["changes"]


def test_the_hosts_of_an_aggregate_are_emptied(new_control: NewControl) -> None:
    control = new_control(scenario=SCENARIO)
    other, made = (
        control.admin.post("/os-aggregates", {"aggregate": {"name": name}}).body["aggregate"] for name in ("a", "rack")
    )
    renamed = {"aggregate": {"name": str(made["id"])}}  # ids go before names
    assert control.admin.put(f"/os-aggregates/{other['id']}", renamed).status == 200
    for host in ("node1", "node2"):
        assert control.admin.post(f"/os-aggregates/{made['id']}/action", {"add_host": {"host": host}}).status == 200
    servers = {boot(control, "node1"), boot(control, "node2")}
    for name in ("rack", str(made["id"])):
        found = told(control, aggregate=name)
        assert {(move["server"], move["to"]) for move in found["moves"]} == {(each, "node3") for each in servers}


@pytest.fixture(scope="module")
def operator(new_shared_control: NewControl) -> Client:
    """A client of a cloud that no test changes."""
    return new_shared_control().operator


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "hosts"),
        ({"hosts": []}, "hosts"),
        ({"hosts": ["none"]}, "hosts[0]"),
        ({"aggregate": "none"}, "aggregate"),
        ({"hosts": ["node1"], "how": "warm"}, "how"),
        ({"hosts": ["node1"], "limits": {"per_host": 0}}, "per_host"),
        ({"hosts": ["node1"], "limits": {"gib_per_host": 0}}, "gib_per_host"),
        ({"hosts": ["node1"], "limits": {"odd": 1}}, "odd"),
        ({"hosts": ["node1"], "locked": "yes"}, "locked"),
    ],
)
def test_bad_input_names_the_field(operator: Client, body: dict[str, Any], field: str) -> None:
    answer = operator.post("/drain", body)
    assert answer.status == 400
    assert field in answer.body["badRequest"]["message"]
