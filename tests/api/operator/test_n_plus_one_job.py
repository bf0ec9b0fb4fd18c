# SPDX-License-Identifier: Apache-2.0
"""Jobs of the kind ``n-plus-one``: the function of the job, in the process of the test."""

from typing import Any

import pytest

from support.control import Control, NewControl
from support.inline_jobs import result_of_job

SCENARIO = """
images: [{name: cirros}]
hosts:
  - {name: node1, vcpus: 4, memory_mib: 4096}
  - {name: node2, vcpus: 4, memory_mib: 4096}
  - {name: node3, vcpus: 4, memory_mib: 4096}
"""


@pytest.fixture
def control(new_control: NewControl) -> Control:
    return new_control(more="[operator]\njob_workers = 0\n", scenario=SCENARIO)


def told(control: Control, lose: str | int) -> dict[str, Any]:
    return result_of_job(control, "n-plus-one", {"lose": lose})


def fill(control: Control, ram: int, *hosts: str) -> list[str]:
    control.add_flavor(f"f{ram}", ram=ram)
    return [str(control.boot(control.admin, flavorRef=f"f{ram}", host=host)["id"]) for host in hosts]


def test_any_one_host_can_be_lost(control: Control) -> None:
    fill(control, 1500, "node1", "node2", "node3")
    found = told(control, "host")
    assert (found["survives"], found["failing"], found["losses"]) == (True, 0, [])
    assert (found["hosts"], found["servers"], found["lose"]) == (3, 3, "host")
    assert found["seq"] > 0


def test_servers_that_are_left_over_have_their_reasons(control: Control) -> None:
    one, *_ = fill(control, 3000, "node1", "node2", "node3")
    found = told(control, "host")
    assert (found["survives"], found["failing"]) == (False, 3)
    first = found["losses"][0]
    assert (first["hosts"], first["servers"], first["left_over"]) == (["node1"], 1, 1)
    (left,) = first["stays"]
    assert left["server"] == one
    assert {each["rule"] for each in left["reasons"]} >= {"Placement: MEMORY_MB"}


def test_losses_of_zones_and_of_several_hosts(control: Control) -> None:
    made = control.admin.post("/os-aggregates", {"aggregate": {"name": "e", "availability_zone": "east"}}).body
    action = f"/os-aggregates/{made['aggregate']['id']}/action"
    assert control.admin.post(action, {"add_host": {"host": "node3"}}).status == 200
    fill(control, 1500, "node1", "node2")
    zones = {each["zone"]: each for each in told(control, "zone")["losses"]}
    assert {name: zone["survives"] for name, zone in zones.items()} == {"east": True, "nova": True}
    found = told(control, 2)
    assert found["survives"] is True
    fill(control, 1000, "node3")
    assert {each["zone"]: each["survives"] for each in told(control, 2)["losses"]} == {"east": True, "nova": False}


@pytest.mark.parametrize("lose", ["rack", 0, 101, 1.5, None])
def test_bad_input_names_the_field(control: Control, lose: Any) -> None:
    answer = control.operator.post("/jobs", {"kind": "n-plus-one", "parameters": {"lose": lose}})
    assert answer.status == 400
    assert "lose" in answer.fault[1]
