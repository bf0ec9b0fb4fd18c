# SPDX-License-Identifier: Apache-2.0
"""POST /operator/v1/capacity: its numbers are those of servers that are created until one is refused."""

from typing import Any

import pytest

from support.api_client import Client
from support.control import IMAGE, Control, NewControl


@pytest.fixture(scope="module")
def operator(new_shared_control: NewControl) -> Client:
    """A client of a cloud that no test changes."""
    started = new_shared_control()
    return started.operator


def told(operator: Client, **body: Any) -> dict[str, Any]:
    answer = operator.post("/capacity", body)
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.body
    return found


def created_until_refused(control: Control, flavor: str, hints: Any = None) -> int:
    """Return the number of servers that become active, one after the other, before one is refused."""
    for number in range(1000):
        server = control.boot(control.admin, hints=hints, flavorRef=flavor)
        if server["status"] != "ACTIVE":
            return number
    raise AssertionError("no server was refused")


def test_numbers_and_reasons_of_flavors(operator: Client) -> None:
    big = {"name": "big", "vcpus": 1, "ram": 10_000}
    found = told(operator, flavors=["flavor1", big, {"name": "huge", "vcpus": 200, "ram": 1}], image=IMAGE)
    assert found["fits"] == {"flavor1": 62, "big": 2, "huge": 0}
    assert found["seq"] > 0
    by_flavor = {each["flavor"]: each["reasons"] for each in found["next"]}
    assert list(by_flavor) == list(found["fits"])
    assert by_flavor["big"] == [{"rule": "Placement: MEMORY_MB", "reason": "cannot give 10000 MEMORY_MB", "hosts": 2}]
    assert by_flavor["huge"] == [{"rule": "Placement: VCPU", "reason": "cannot give 200 VCPU", "hosts": 2}]


def test_every_enabled_flavor_is_counted_if_none_is_named(operator: Client) -> None:
    assert list(told(operator)["fits"]) == ["flavor1"]


def test_a_flavor_that_no_guest_can_have_is_refused_with_the_reason(operator: Client) -> None:
    odd = {"name": "odd", "vcpus": 2, "ram": 64, "extra_specs": {"hw:numa_nodes": "many"}}
    found = told(operator, flavors=[odd, "1"])
    assert found["fits"]["odd"] == 0
    assert found["fits"]["flavor1"] > 0
    (reason,) = found["next"][0]["reasons"]
    assert reason["rule"] == "request"
    assert "hw:numa_nodes" in reason["reason"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"flavors": ["none"]}, "flavors[0]"),
        ({"flavors": []}, "flavors"),
        ({"flavors": ["1", "flavor1"]}, "flavors[1]"),
        ({"flavors": ["1"] * 101}, "flavors"),
        ({"flavors": [{"vcpus": 1, "ram": 1}]}, "flavors"),
        ({"flavors": "1"}, "flavors"),
        ({"image": "none"}, "image"),
        ({"group": "none"}, "group"),
        ({"availability_zone": "none"}, "zone"),
        ({"hints": {"a": 1}}, "hints"),
        ({"nonsense": 1}, "nonsense"),
        ({"mix": []}, "mix"),
        ({"mix": {"flavor1": 1}}, "mix"),
        ({"mix": [{"flavor": "1", "share": 0}]}, "mix"),
        ({"mix": [{"flavor": "1", "share": 1.5}]}, "mix"),
        ({"mix": [{"flavor": "1"}]}, "mix"),
        ({"mix": [{"flavor": "none", "share": 1}]}, "mix[0]"),
        ({"mix": [{"flavor": "1", "share": 1}, {"flavor": "flavor1", "share": 2}]}, "mix[1]"),
        ({"mix": [{"flavor": "1", "share": 1}], "flavors": ["1"]}, "mix"),
        ({"by": "rack"}, "by"),
        ({"stranded": 1}, "stranded"),
    ],
)
def test_bad_input_names_the_field(operator: Client, body: Any, field: str) -> None:
    answer = operator.post("/capacity", body)
    assert answer.status == 400, answer.body
    assert field in answer.fault[1]


def test_a_mix_is_counted_together(operator: Client) -> None:
    mix = [{"flavor": "flavor1", "share": 3}, {"flavor": {"name": "big", "vcpus": 1, "ram": 10_000}, "share": 1}]
    found = told(operator, mix=mix, image=IMAGE)
    assert found["fits"] == {"flavor1": 8, "big": 2}
    assert found["mix"] == {"shares": {"flavor1": 3, "big": 1}, "fits": 10}
    (refused,) = found["next"]
    assert refused["flavor"] == "big"
    assert refused["reasons"] == [{"rule": "Placement: MEMORY_MB", "reason": "cannot give 10000 MEMORY_MB", "hosts": 2}]


def test_a_flavor_of_a_mix_that_no_guest_can_have_ends_it(operator: Client) -> None:
    odd = {"name": "odd", "vcpus": 2, "ram": 64, "extra_specs": {"hw:numa_nodes": "many"}}
    found = told(operator, mix=[{"flavor": "1", "share": 2}, {"flavor": odd, "share": 1}], by="zone")
    assert found["fits"] == {"flavor1": 1, "odd": 0}
    (refused,) = found["next"]
    assert [each["rule"] for each in refused["reasons"]] == ["request"]
    assert refused["by"][0]["reasons"] == refused["reasons"]


def test_answers_divided_by_aggregate_and_zone(control: Control) -> None:
    for name, zone, host in (("east", "east", "node1"), ("ssd", None, "node1"), ("empty", None, None)):
        made = control.admin.post("/os-aggregates", {"aggregate": {"name": name, "availability_zone": zone}}).body
        if host is not None:
            action = f"/os-aggregates/{made['aggregate']['id']}/action"
            assert control.admin.post(action, {"add_host": {"host": host}}).status == 200
    control.add_flavor("mid", ram=5000)
    (by_zone,) = told(control.operator, flavors=["mid"], image=IMAGE, by="zone")["next"]
    assert {each["zone"]: (each["hosts"], each["fits"]) for each in by_zone["by"]} == {"east": (1, 3), "nova": (1, 3)}
    (by_aggregate,) = told(control.operator, mix=[{"flavor": "mid", "share": 1}], image=IMAGE, by="aggregate")["next"]
    assert [(each["aggregate"], each["fits"]) for each in by_aggregate["by"]] == [("east", 3), ("ssd", 3), (None, 3)]
    for each in (*by_zone["by"], *by_aggregate["by"]):
        assert each["reasons"] == [{"rule": "Placement: MEMORY_MB", "reason": "cannot give 5000 MEMORY_MB", "hosts": 1}]


def test_stranded_resources(control: Control) -> None:
    control.add_flavor("mid", ram=5000)
    before = told(control.operator, flavors=["mid"], image=IMAGE, stranded=True)["stranded"]
    assert before["MEMORY_MB"]["stranded"] == before["VCPU"]["stranded"] == 0
    assert created_until_refused(control, "mid") == 6
    after = told(control.operator, flavors=["mid"], image=IMAGE, stranded=True)["stranded"]
    memory, vcpu = after["MEMORY_MB"], after["VCPU"]
    assert memory["stranded"] == memory["free"] == memory["capacity"] - 30_000
    assert vcpu["stranded"] == vcpu["free"]
    assert vcpu["share"] == round(vcpu["stranded"] / vcpu["capacity"], 6)
    assert [each["rule"] for each in vcpu["causes"]] == ["Placement: MEMORY_MB"]
    assert told(control.operator, image=IMAGE, stranded=True)["stranded"]["VCPU"]["stranded"] == 0


def test_a_body_must_be_an_object(operator: Client) -> None:
    assert operator.post("/capacity", [1]).status == 400


def test_nothing_changes(control: Control) -> None:
    before = control.everything()
    mirror = control.process.mirror
    used = mirror.snapshot().used.tolist()
    told(control.operator, flavors=["1"], image=IMAGE)
    assert control.everything() == before
    assert mirror.snapshot().used.tolist() == used


def test_capacity_is_what_creating_gives(control: Control) -> None:
    control.add_flavor("mid", ram=5000)
    control.boot(control.admin)
    fits = told(control.operator, flavors=["mid"], image=IMAGE)["fits"]["flavormid"]
    assert fits == 6
    assert created_until_refused(control, "mid") == fits
    again = told(control.operator, flavors=["mid"], image=IMAGE)
    assert again["fits"]["flavormid"] == 0
    assert again["next"][0]["reasons"][0]["rule"] == "Placement: MEMORY_MB"


@pytest.mark.parametrize(("policy", "expected"), [("anti-affinity", 2), ("affinity", 3), ("soft-anti-affinity", 6)])
def test_capacity_of_a_group_is_what_creating_gives(control: Control, policy: str, expected: int) -> None:
    control.add_flavor("mid", ram=5000)
    made = control.admin.post("/os-server-groups", {"server_group": {"name": "g", "policy": policy}})
    group = made.body["server_group"]["id"]
    found = told(control.operator, flavors=["mid"], image=IMAGE, group=group)
    assert found["fits"]["flavormid"] == expected
    hinted = told(control.operator, flavors=["mid"], image=IMAGE, hints={"group": group})
    assert hinted == found
    assert created_until_refused(control, "mid", {"group": group}) == expected


def test_devices_of_nested_providers_are_counted(control: Control) -> None:
    (host, *_) = control.admin.get("/os-hypervisors").body["hypervisors"]
    made = control.placement.post("/resource_providers", {"name": "gpus", "parent_provider_uuid": host["id"]}).body
    inventories = {"resource_provider_generation": made["generation"], "inventories": {"VGPU": {"total": 3}}}
    assert control.placement.put(f"/resource_providers/{made['uuid']}/inventories", inventories).status == 200
    control.add_flavor("gpu")
    control.admin.post("/flavors/gpu/os-extra_specs", {"extra_specs": {"resources:VGPU": "1"}})
    assert told(control.operator, flavors=["gpu"], image=IMAGE)["fits"] == {"flavorgpu": 3}
    assert created_until_refused(control, "gpu") == 3


def test_an_answer_that_takes_too_long_is_given_up(new_control: NewControl) -> None:
    slow = new_control(more="[api]\nrequest_timeout = 0.000001\n")
    answer = slow.operator.post("/capacity", {})
    assert answer.status == 503, answer.body
