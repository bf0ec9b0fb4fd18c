# SPDX-License-Identifier: Apache-2.0
"""Jobs of the kind ``rebalance``: their plans are carried out through the compute API, and every move is accepted."""

from typing import Any

import pytest

from support.control import Control, NewControl
from support.inline_jobs import result_of_job
from support.plans_over_http import carry_out, host_of
from support.waiting import wait_until

SCENARIO = """
images: [{name: cirros}]
hosts:
  - {name: node1, vcpus: 8, memory_mib: 8192}
  - {name: node2, vcpus: 8, memory_mib: 8192}
  - {name: node3, vcpus: 8, memory_mib: 8192}
"""


def planned(control: Control, **parameters: Any) -> dict[str, Any]:
    return result_of_job(control, "rebalance", parameters)


@pytest.fixture
def control(new_control: NewControl) -> Control:
    return new_control(more="[operator]\njob_workers = 0\n", scenario=SCENARIO)


def boot(control: Control, host: str, **more: Any) -> str:
    server = control.boot(control.admin, host=host, **more)
    assert server["status"] == "ACTIVE"
    return str(server["id"])


def test_servers_are_spread(control: Control) -> None:
    servers = [boot(control, "node1") for _ in range(6)]
    found = planned(control, objective="spread")
    assert (found["objective"], len(found["moves"]), found["seq"] > 0) == ("spread", 4, True)
    assert found["after"] < found["before"]
    assert found["waves"] == 4, "moves that share a host keep their order"
    carry_out(control, found["moves"])
    assert sorted(host_of(control, each) for each in servers) == [f"node{1 + number // 2}" for number in range(6)]
    again = planned(control, objective="spread")
    assert again["moves"] == []
    assert again["before"] == pytest.approx(found["after"])


def test_hosts_are_freed(control: Control) -> None:
    for host, count in (("node1", 3), ("node2", 1), ("node3", 1)):
        for _ in range(count):
            boot(control, host)
    found = planned(control, objective="pack")
    assert (found["before"], found["after"]) == (3, 1)
    carry_out(control, found["moves"])
    assert planned(control, objective="pack", moves=10)["moves"] == []


def test_violations_are_mended(control: Control) -> None:
    violating, other = boot(control, "node1"), boot(control, "node2")
    made = control.admin.post("/os-aggregates", {"aggregate": {"name": "apart"}}).body["aggregate"]
    action = f"/os-aggregates/{made['id']}/action"
    assert control.admin.post(action, {"add_host": {"host": "node1"}}).status == 200
    rule = {"set_metadata": {"metadata": {"kilonova:only": "project=another"}}}
    assert control.admin.post(action, rule).status == 200
    found = planned(control, objective="mend")
    assert [move["server"] for move in found["moves"]] == [violating]
    assert (found["before"], found["after"], found["stays"]) == (1, 0, [])
    carry_out(control, found["moves"])
    assert host_of(control, violating) != "node1"
    assert host_of(control, other) == "node2"


def test_a_resource_is_levelled_within_an_aggregate(control: Control) -> None:
    made = control.admin.post("/os-aggregates", {"aggregate": {"name": "rack"}}).body["aggregate"]
    for host in ("node1", "node2"):
        assert control.admin.post(f"/os-aggregates/{made['id']}/action", {"add_host": {"host": host}}).status == 200
    for _ in range(4):
        boot(control, "node1")
    found = planned(control, objective="level", resource="MEMORY_MB", aggregate="rack", moves=1)
    assert [(move["from"], move["to"]) for move in found["moves"]] == [("node1", "node2")]
    every = planned(control, objective="level", resource="MEMORY_MB")
    assert {(move["from"], move["to"]) for move in every["moves"]} == {("node1", "node2")}
    assert len(every["moves"]) == 2


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({}, "objective"),
        ({"objective": "best"}, "objective"),
        ({"objective": "level"}, "resource"),
        ({"objective": "spread", "moves": 0}, "moves"),
        ({"objective": "spread", "gib": -1}, "gib"),
        ({"objective": "spread", "aggregate": "none"}, "aggregate"),
        ({"objective": "spread", "odd": 1}, "odd"),
    ],
)
def test_bad_input_names_the_field(control: Control, parameters: dict[str, Any], field: str) -> None:
    answer = control.operator.post("/jobs", {"kind": "rebalance", "parameters": parameters})
    assert answer.status == 400
    assert field in answer.body["badRequest"]["message"]


def test_a_job_plans_in_a_process_of_its_own(new_control: NewControl) -> None:
    control = new_control(scenario=SCENARIO)
    for _ in range(2):
        boot(control, "node1")
    asked = {"kind": "rebalance", "parameters": {"objective": "spread"}}
    uuid = control.operator.post("/jobs", asked).body["job"]["id"]
    wait_until(lambda: shown(control, uuid)["state"] == "done", lambda: f"an end of {shown(control, uuid)}")
    assert len(shown(control, uuid)["result"]["moves"]) == 1


def shown(control: Control, uuid: str) -> dict[str, Any]:
    job: dict[str, Any] = control.operator.get(f"/jobs/{uuid}").body["job"]
    assert job["state"] not in {"failed", "cancelled"}, job
    return job
