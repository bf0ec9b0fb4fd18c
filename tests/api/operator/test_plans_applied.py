# SPDX-License-Identifier: Apache-2.0
"""Plans that are applied: all servers move, pause and cancel leave them whole, and other changes make it plan again."""

from typing import Any

import pytest

from support.control import Control, NewControl
from support.inline_jobs import compute_next, stored_job
from support.plans_over_http import host_of
from support.waiting import wait_until

SCENARIO = """
images: [{name: cirros}]
hosts:
  - {name: node1, vcpus: 4, memory_mib: 8192}
  - {name: node2, vcpus: 4, memory_mib: 8192}
  - {name: node3, vcpus: 4, memory_mib: 8192}
"""
ENDED = {"done", "failed", "cancelled"}


@pytest.fixture
def control(new_control: NewControl) -> Control:
    return new_control(scenario=SCENARIO, more="[operator]\njob_workers = 0\n")


def boot(control: Control, host: str, **more: Any) -> str:
    server = control.boot(control.admin, host=host, **more)
    assert server["status"] == "ACTIVE"
    return str(server["id"])


def saved(control: Control, **asked: Any) -> str:
    answer = control.operator.post("/plans", {"drain": asked})
    assert answer.status == 201, answer.body
    return str(answer.body["plan"]["id"])


def act(control: Control, plan: str, action: str, status: int = 202) -> None:
    answer = control.operator.post(f"/plans/{plan}/{action}")
    assert answer.status == status, answer.body


def shown(control: Control, plan: str) -> dict[str, Any]:
    found: dict[str, Any] = control.operator.get(f"/plans/{plan}").body["plan"]
    return found


def ended(control: Control, plan: str) -> dict[str, Any]:
    wait_until(
        lambda: shown(control, plan)["state"] in ENDED, lambda: f"an end of {shown(control, plan)}", at_most_s=60
    )
    return shown(control, plan)


@pytest.mark.parametrize("how", ["live", "cold"])
def test_a_drain_empties_its_host(control: Control, how: str) -> None:
    servers = [boot(control, "node1") for _ in range(4)]
    plan = saved(control, hosts=["node1"], how=how, limits={"per_host": 2})
    act(control, plan, "apply")
    found = ended(control, plan)
    assert (found["state"], found["progress"]["done"], found["waves"], found["replans"]) == ("done", 4, 2, 0), found
    assert all(host_of(control, server) in {"node2", "node3"} for server in servers)
    for server in servers:
        assert control.admin.get(f"/servers/{server}").body["server"]["status"] == "ACTIVE"
        (action, *_) = control.admin.get(f"/servers/{server}/os-instance-actions").body["instanceActions"]
        assert action["action"] == ("live-migration" if how == "live" else "confirmResize")
    assert {move["state"] for move in found["moves"]} == {"done"}
    control.check()
    act(control, plan, "apply", 409)


def test_new_and_gone_servers_make_the_rest_be_planned_again(control: Control) -> None:
    moved, deleted, _ = (boot(control, "node1") for _ in range(3))
    plan = saved(control, hosts=["node1"], how="live")
    late = boot(control, "node1")
    assert control.admin.delete(f"/servers/{deleted}").status == 204
    asked = {"os-migrateLive": {"host": "node3", "block_migration": "auto"}}
    assert control.admin.post(f"/servers/{moved}/action", asked).status == 202
    control.settle()
    act(control, plan, "apply")
    found = ended(control, plan)
    assert (found["state"], found["replans"]) == ("done", 1), found
    assert late in found["message"] or late in {move["server"] for move in found["moves"]}
    states = {move["server"]: move["state"] for move in found["moves"]}
    assert (states[moved], states[deleted], states[late]) == ("skipped", "skipped", "done")
    assert control.operator.post("/drain", {"hosts": ["node1"]}).body["moves"] == []


def test_a_server_that_cannot_move_stays_with_its_reason(control: Control) -> None:
    first = boot(control, "node1")
    plan = saved(control, hosts=["node1"])
    assert control.admin.post(f"/servers/{first}/action", {"lock": None}).status == 202
    act(control, plan, "apply")
    found = ended(control, plan)
    assert (found["state"], found["stays"][0]["reason"]) == ("done", "the server is locked")
    assert host_of(control, first) == "node1"


def test_a_cancelled_plan_ends_what_it_has_begun(control: Control) -> None:
    servers = [boot(control, "node1") for _ in range(4)]
    plan = saved(control, hosts=["node1"], how="cold", limits={"per_wave": 1})
    act(control, plan, "apply")
    wait_until(lambda: shown(control, plan)["progress"]["done"], lambda: "a move that is done")
    act(control, plan, "cancel")
    found = ended(control, plan)
    assert found["state"] == "cancelled"
    assert found["progress"]["done"] + found["progress"]["cancelled"] == 4
    assert found["progress"]["cancelled"]
    for server in servers:
        assert control.admin.get(f"/servers/{server}").body["server"]["status"] == "ACTIVE"
    control.check()


def test_a_paused_plan_begins_no_move_until_it_is_resumed(control: Control) -> None:
    for _ in range(4):
        boot(control, "node1")
    plan = saved(control, hosts=["node1"], how="cold", limits={"per_wave": 1})
    act(control, plan, "apply")
    wait_until(lambda: shown(control, plan)["progress"]["running"], lambda: "a move")
    act(control, plan, "pause")
    wait_until(lambda: not shown(control, plan)["progress"]["running"], lambda: "an end of the moves")
    before = shown(control, plan)
    assert (before["state"], before["progress"]["planned"] > 0) == ("paused", True)
    control.settle()
    assert shown(control, plan)["progress"] == before["progress"]
    act(control, plan, "resume")
    assert ended(control, plan)["progress"]["done"] == 4


def rebalanced(control: Control, **parameters: Any) -> str:
    job, _ = stored_job(control, "rebalance", {"objective": "spread", **parameters})
    return str(control.operator.post("/plans", {"job": job}).body["plan"]["id"])


def test_a_rebalancing_is_applied(control: Control) -> None:
    servers = [boot(control, "node1") for _ in range(4)]
    plan = rebalanced(control)
    act(control, plan, "apply")
    assert ended(control, plan)["state"] == "done"
    assert len({host_of(control, server) for server in servers}) == 3


def test_the_rest_of_a_rebalancing_is_planned_again_by_a_job_within_its_bounds(control: Control) -> None:
    for _ in range(4):
        boot(control, "node1")
    plan = rebalanced(control, moves=3, how="live")
    assert {move["to"] for move in shown(control, plan)["moves"]} == {"node2", "node3"}
    service = control.admin.get("/os-services?host=node3").body["services"][0]["id"]
    assert control.admin.put(f"/os-services/{service}", {"status": "disabled"}).status == 200
    act(control, plan, "apply")
    wait_until(lambda: "being planned again" in shown(control, plan)["message"], lambda: str(shown(control, plan)))
    (job,) = control.operator.get("/jobs?state=queued&kind=rebalance").body["jobs"]
    assert job["parameters"] == {"objective": "spread", "moves": 3, "how": "live"}
    assert compute_next(control) == job["id"]
    found = ended(control, plan)
    assert (found["state"], found["replans"]) == ("done", 1), found
    assert {move["to"] for move in found["moves"]} == {"node2"}
    control.check()


def test_without_a_job_the_valid_moves_are_kept(control: Control) -> None:
    first = boot(control, "node1")
    for _ in range(3):
        boot(control, "node1")
    plan = rebalanced(control, how="live")
    for server in {move["server"] for move in shown(control, plan)["moves"]}:
        first = server
    assert control.admin.post(f"/servers/{first}/action", {"lock": None}).status == 202
    act(control, plan, "apply")
    wait_until(lambda: "being planned again" in shown(control, plan)["message"], lambda: str(shown(control, plan)))
    (job,) = control.operator.get("/jobs?state=queued").body["jobs"]
    assert control.operator.delete(f"/jobs/{job['id']}").status == 202
    found = ended(control, plan)
    assert (found["state"], found["replans"]) == ("done", 1), found
    assert first not in {move["server"] for move in found["moves"]}
    assert found["progress"]["done"] == len(found["moves"])
