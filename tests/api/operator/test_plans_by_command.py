# SPDX-License-Identifier: Apache-2.0
"""Commands that apply plans: drain, plan, maintenance, hosts evacuate; their output and exit codes for scripts."""

import pytest

from support.commands_in_process import answered, run
from support.control import Control, NewControl
from support.plans_over_http import host_of
from support.waiting import wait_until

SCENARIO = """
images: [{name: cirros}]
hosts:
  - {name: node1, vcpus: 4, memory_mib: 8192}
  - {name: node2, vcpus: 4, memory_mib: 8192}
  - {name: node3, vcpus: 4, memory_mib: 8192}
"""
Said = pytest.CaptureFixture[str]


@pytest.fixture
def control(new_control: NewControl) -> Control:
    return new_control(scenario=SCENARIO, more="[operator]\njob_workers = 0\n")


def boot(control: Control, host: str = "node1") -> str:
    return str(control.boot(control.admin, host=host)["id"])


def service(control: Control, host: str) -> dict[str, str]:
    (found,) = control.admin.get(f"/os-services?host={host}").body["services"]
    return dict(found)


def test_a_drain_is_applied_and_waited_for(control: Control, capsys: Said) -> None:
    server = boot(control)
    plan = answered(control, capsys, "drain", "node1", "--apply", "--wait")
    assert (plan["state"], plan["progress"]["done"], plan["stays"]) == ("done", 1, [])
    assert host_of(control, server) != "node1"
    assert run(control, "plan", "show", plan["id"]) == 0
    assert f"Plan {plan['id']} is done; moves: 1 done" in " ".join(capsys.readouterr().out.split())
    assert run(control, "plan", "list") == 0
    assert "1 of 1" in capsys.readouterr().out
    assert run(control, "plan", "delete", plan["id"]) == 0
    assert run(control, "plan", "show", plan["id"]) == 1


def test_a_server_that_stays_is_exit_code_1(control: Control, capsys: Said) -> None:
    server = boot(control)
    assert control.admin.post(f"/servers/{server}/action", {"lock": None}).status == 202
    plan = answered(control, capsys, "drain", "node1", "--apply", "--wait", code=1)
    assert plan["stays"][0]["reason"] == "the server is locked"
    assert answered(control, capsys, "drain", "node1", "--save", code=1)["state"] == "ready"
    assert answered(control, capsys, "drain", "node1", "--locked", "--apply", "--wait")["state"] == "done"
    assert run(control, "drain", "node1", "--wait") == 2
    assert run(control, "drain", "nowhere", "--apply") == 2


def test_a_saved_plan_is_applied_paused_resumed_and_cancelled(control: Control, capsys: Said) -> None:
    for _ in range(3):
        boot(control)
    saved = answered(control, capsys, "drain", "node1", "--cold", "--per-wave", "1", "--save")["id"]
    assert run(control, "plan", "pause", saved) == 1
    assert answered(control, capsys, "plan", "apply", saved)["state"] == "running"
    assert answered(control, capsys, "plan", "pause", saved)["state"] == "paused"
    assert answered(control, capsys, "plan", "resume", saved)["state"] == "running"
    plan = answered(control, capsys, "plan", "cancel", saved, "--wait")
    assert plan["state"] == "cancelled"
    assert run(control, "plan", "apply", saved, "--wait") == 2
    control.check()


def test_maintenance_empties_a_host_and_puts_it_back(control: Control, capsys: Said) -> None:
    server = boot(control)
    found = answered(control, capsys, "maintenance", "begin", "node1", "--reason", "new memory", "--wait")
    assert (found["empty"], found["plan"]["state"]) == (True, "done")
    assert host_of(control, server) != "node1"
    assert service(control, "node1") == service(control, "node1") | {
        "status": "disabled",
        "disabled_reason": "new memory",
    }
    assert run(control, "maintenance", "begin", "node1", "--wait") == 0
    assert "disabled and without servers" in capsys.readouterr().out
    assert service(control, "node1")["disabled_reason"] == "new memory"
    assert answered(control, capsys, "maintenance", "end", "node1") == {"hosts": ["node1"]}
    assert service(control, "node1")["status"] == "enabled"
    assert run(control, "maintenance", "begin", "node1", "nowhere") == 2
    assert service(control, "node1")["status"] == "enabled"


def test_maintenance_goes_on_with_its_plan(control: Control, capsys: Said) -> None:
    for _ in range(3):
        boot(control)
    first = answered(control, capsys, "maintenance", "begin", "node1", "--how", "cold")["plan"]["id"]
    answered(control, capsys, "plan", "pause", first)
    assert run(control, "maintenance", "end", "node1") == 1
    assert "cancel it first" in capsys.readouterr().err
    found = answered(control, capsys, "maintenance", "begin", "node1", "--wait")
    assert (found["plan"]["id"], found["empty"]) == (first, True)


def test_a_host_that_is_up_is_evacuated_live(control: Control, capsys: Said) -> None:
    server = boot(control)
    plan = answered(control, capsys, "hosts", "evacuate", "node1", "--wait")
    assert (plan["kind"], plan["moves"][0]["kind"], plan["state"]) == ("drain", "live-migrate", "done")
    assert host_of(control, server) != "node1"
    assert run(control, "hosts", "evacuate", "nowhere") == 2


def test_a_host_that_is_down_is_evacuated(control: Control, capsys: Said) -> None:
    running, shelved = boot(control), boot(control)
    assert control.admin.post(f"/servers/{shelved}/action", {"suspend": None}).status == 202
    control.settle()
    down = {"forced_down": True}
    assert control.admin.put(f"/os-services/{service(control, 'node1')['id']}", down).status == 200
    plan = answered(control, capsys, "hosts", "evacuate", "node1", "--wait", code=1)
    assert (plan["kind"], plan["state"], plan["progress"]["done"]) == ("evacuate", "done", 1)
    assert plan["moves"][0] == plan["moves"][0] | {"server": running, "kind": "evacuate", "to": None}
    assert plan["stays"] == [
        {
            "server": shelved,
            "name": "vm",
            "host": "node1",
            "reason": "a server with the state suspended cannot be evacuated",
        }
    ]
    assert host_of(control, running) != "node1"


def test_the_evacuation_of_a_host_that_comes_up_ends(control: Control) -> None:
    server = boot(control)
    put = f"/os-services/{service(control, 'node1')['id']}"
    assert control.operator.post("/plans", {"evacuate": {"hosts": ["node1"]}}).status == 400
    assert control.admin.put(put, {"forced_down": True}).status == 200
    saved = control.operator.post("/plans", {"evacuate": {"hosts": ["node1"]}}).body["plan"]["id"]
    assert control.admin.put(put, {"forced_down": False}).status == 200
    assert control.operator.post(f"/plans/{saved}/apply").status == 202
    show = f"/plans/{saved}"
    wait_until(lambda: control.operator.get(show).body["plan"]["state"] == "failed", "the end of the plan")
    (move,) = control.operator.get(show).body["plan"]["moves"]
    assert move["reason"] == "The compute service of host node1 is up, so the server is not evacuated."
    assert host_of(control, server) == "node1"
