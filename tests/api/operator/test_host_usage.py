# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from support.api_client import Client
from support.control import Control, NewControl

SCENARIO = """
images: [{name: cirros}]
flavors: [{id: "1", name: small, vcpus: 2, memory_mib: 512, disk_gib: 1}]
hosts:
  - {name: node1, vcpus: 8, memory_mib: 4096}
  - {name: node2, vcpus: 4, memory_mib: 2048}
"""


@pytest.fixture
def control(new_control: NewControl) -> Control:
    return new_control(scenario=SCENARIO)


@pytest.fixture
def operator(control: Control) -> Client:
    return control.operator


def usage(operator: Client, query: str = "") -> dict[str, Any]:
    answer = operator.get(f"/hosts/usage{query}")
    assert answer.status == 200, answer.body
    body: dict[str, Any] = answer.body
    return body


def test_all_hosts_are_columns(control: Control, operator: Client) -> None:
    control.boot(control.admin, availability_zone="nova:node2")
    found = usage(operator)
    assert (found["whole"], found["hosts"], found["nodes"]) == (True, ["node1", "node2"], ["node1", "node2"])
    assert found["zones"] == ["nova", "nova"]
    assert (found["up"], found["disabled"], found["servers"]) == ([True, True], [False, False], [0, 1])
    memory = found["resources"]["MEMORY_MB"]
    assert memory["used"] == [0, 512]
    assert memory["capacity"][0] > memory["capacity"][1]


def test_an_answer_after_a_version_has_the_changed_hosts_only(control: Control, operator: Client) -> None:
    first = usage(operator)
    same = usage(operator, f"?after={first['version']}")
    assert (same["whole"], same["hosts"], same["version"]) == (False, [], first["version"])
    control.boot(control.admin, availability_zone="nova:node2")
    changed = usage(operator, f"?after={first['version']}&resource=VCPU")
    assert (changed["whole"], changed["hosts"], changed["servers"]) == (False, ["node2"], [1])
    assert list(changed["resources"]) == ["VCPU"]
    assert changed["resources"]["VCPU"]["used"] == [1]
    assert changed["seq"] > first["seq"]
    assert usage(operator, f"?after={changed['version']}")["hosts"] == []


def test_a_disabled_host_and_another_zone_are_changes(control: Control, operator: Client) -> None:
    version = usage(operator)["version"]
    (service,) = control.admin.get("/os-services?host=node1&binary=nova-compute").body["services"]
    disable = {"status": "disabled"}
    assert control.admin.put(f"/os-services/{service['id']}", disable, version="2.53").status == 200
    changed = usage(operator, f"?after={version}")
    assert (changed["hosts"], changed["disabled"], changed["up"]) == (["node1"], [True], [True])
    east = {"aggregate": {"name": "east", "availability_zone": "east"}}
    aggregate = control.admin.post("/os-aggregates", east).body["aggregate"]["id"]
    assert control.admin.post(f"/os-aggregates/{aggregate}/action", {"add_host": {"host": "node2"}}).status == 200
    changed = usage(operator, f"?after={changed['version']}")
    assert (changed["hosts"], changed["zones"]) == (["node2"], ["east"])


def test_an_unknown_version_is_answered_with_all_hosts(operator: Client) -> None:
    assert usage(operator, "?after=00000000-7")["whole"] is True


@pytest.mark.parametrize("query", ["after=1", "after=", "resource=vcpu", "limit=3"])
def test_bad_parameters_are_named(operator: Client, query: str) -> None:
    answer = operator.get(f"/hosts/usage?{query}")
    assert answer.status == 400
    assert query.partition("=")[0] in answer.body["badRequest"]["message"]
