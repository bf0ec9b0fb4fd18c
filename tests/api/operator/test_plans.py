# SPDX-License-Identifier: Apache-2.0
"""Routes below /operator/v1/plans: saved plans, their lists and bad requests."""

from typing import Any

import pytest

from support.control import Control, NewControl
from support.inline_jobs import stored_job

SCENARIO = """
images: [{name: cirros}]
hosts:
  - {name: node1, vcpus: 4, memory_mib: 8192}
  - {name: node2, vcpus: 4, memory_mib: 8192}
"""
OPTIONS = "[operator]\njob_workers = 0\n"


@pytest.fixture
def control(new_control: NewControl) -> Control:
    return new_control(scenario=SCENARIO, more=OPTIONS)


@pytest.fixture(scope="module")
def empty(new_shared_control: NewControl) -> Control:
    return new_shared_control(scenario=SCENARIO, more=OPTIONS)


def saved(control: Control, **body: Any) -> dict[str, Any]:
    answer = control.operator.post("/plans", body)
    assert answer.status == 201, answer.body
    plan: dict[str, Any] = answer.body["plan"]
    return plan


def test_a_drain_is_saved_as_it_is_planned(control: Control) -> None:
    server = control.boot(control.admin, host="node1")["id"]
    locked = control.boot(control.admin, host="node1")["id"]
    assert control.admin.post(f"/servers/{locked}/action", {"lock": None}).status == 202
    asked = {"hosts": ["node1"], "how": "cold"}
    planned = control.operator.post("/drain", asked).body
    plan = saved(control, drain=asked)
    (move,) = plan["moves"]
    assert move == move | planned["moves"][0] | {"server": server, "state": "planned", "migration": None}
    assert (plan["state"], plan["kind"], plan["seq"], plan["process"]) == ("ready", "drain", planned["seq"], None)
    assert plan["stays"] == [{"server": locked, "name": "vm", "host": "node1", "reason": "the server is locked"}]
    assert plan["request"] == {
        "hosts": ["node1"],
        "how": "cold",
        "limits": {"per_host": None, "per_wave": None, "gib_per_host": None},
        "locked": False,
    }
    assert plan["progress"]["planned"] == plan["waves"] == 1
    assert control.operator.get(f"/plans/{plan['id']}").body["plan"] == plan
    without = {name: value for name, value in plan.items() if name != "moves"}
    assert control.operator.get(f"/plans/{plan['id']}?moves=false").body["plan"] == without
    assert control.operator.get(f"/plans/{plan['id']}?moves=no").status == 400


def test_the_result_of_a_job_is_saved(control: Control) -> None:
    for _ in range(4):
        control.boot(control.admin, host="node1")
    uuid, result = stored_job(control, "rebalance", {"objective": "spread"})
    plan = saved(control, job=uuid)
    assert [move["server"] for move in plan["moves"]] == [move["server"] for move in result["moves"]]
    assert (plan["kind"], plan["seq"], plan["waves"]) == ("rebalance", result["seq"], result["waves"])
    assert plan["request"] == {"objective": "spread", "aggregate_id": None}


def test_plans_are_listed_in_pages_and_deleted(control: Control) -> None:
    made = [saved(control, drain={"hosts": ["node1"]})["id"] for _ in range(3)]
    first = control.operator.get("/plans?limit=2").body
    assert [each["id"] for each in first["plans"]] == made[:0:-1]
    assert "moves" not in first["plans"][0]
    (link,) = first["plans_links"]
    assert f"marker={made[1]}" in link["href"]
    assert control.operator.post(f"/plans/{made[0]}/cancel").body["plan"]["state"] == "cancelled"
    assert [each["id"] for each in control.operator.get("/plans?state=cancelled").body["plans"]] == made[:1]
    assert control.operator.delete(f"/plans/{made[0]}").status == 204
    assert [each["id"] for each in control.operator.get(f"/plans?marker={made[1]}").body["plans"]] == []
    for method in (control.operator.get, control.operator.delete):
        assert method(f"/plans/{made[0]}").status == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "non-empty"),
        ({"moves": []}, "moves"),
        ({"drain": {"hosts": ["node1"]}, "job": "0" * 36}, "properties"),
        ({"drain": {"hosts": []}}, "hosts"),
        ({"drain": {"hosts": ["node1", "none"]}}, "hosts[1]"),
        ({"evacuate": {"hosts": ["none", "node1"]}}, "hosts[0]"),
        ({"evacuate": {"hosts": ["node1"]}}, "is up"),
        ({"drain": {"hosts": ["node1"], "moves": []}}, "moves"),
        ({"job": "none"}, "job"),
        ({"job": "0" * 36}, "job"),
    ],
)
def test_bad_input_names_the_field(empty: Control, body: dict[str, Any], field: str) -> None:
    answer = empty.operator.post("/plans", body)
    assert answer.status == 400, answer.body
    assert field in answer.fault[1]


def test_only_finished_jobs_of_the_kind_rebalance_are_saved(empty: Control) -> None:
    for kind, parameters in (("capacity", {}), ("rebalance", {"objective": "pack"})):
        job = empty.operator.post("/jobs", {"kind": kind, "parameters": parameters}).body["job"]["id"]
        assert empty.operator.post("/plans", {"job": job}).status == 400


@pytest.mark.parametrize("query", ["state=none", "marker=none", "marker=" + "0" * 36, "limit=-1", "a=1"])
def test_bad_queries_are_refused(empty: Control, query: str) -> None:
    assert empty.operator.get(f"/plans?{query}").status == 400


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_a_plan_that_is_not_applied_cannot_be_paused(empty: Control, action: str) -> None:
    plan = saved(empty, drain={"hosts": ["node1"]})["id"]
    assert empty.operator.post(f"/plans/{plan}/cancel").status == 202
    assert empty.operator.post(f"/plans/{plan}/{action}").status == 409
    assert empty.operator.post(f"/plans/{plan}/apply", {"now": True}).status == 400
