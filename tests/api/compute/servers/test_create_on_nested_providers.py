# SPDX-License-Identifier: Apache-2.0
"""Servers that use more than their host's own provider: devices below it, and what several hosts share.

Operators make such providers through the Placement API, as ``openstack resource provider create`` does.
"""

from typing import Any
from uuid import uuid4

import pytest

from kilonova.db import checkpoints
from support.control import Control
from support.waiting import wait_until

ISOLATED = {"resources1:VGPU": "1", "resources2:VGPU": "1", "group_policy": "isolate"}


def hosts(control: Control) -> dict[str, str]:
    """Return host → uuid of its provider."""
    listed = control.admin.get("/os-hypervisors").body["hypervisors"]
    return {each["hypervisor_hostname"]: each["id"] for each in listed}


def add_provider(control: Control, name: str, parent: str | None, inventories: dict[str, int], *traits: str) -> str:
    uuid = str(uuid4())
    made = control.placement.post(
        "/resource_providers", {"name": name, "uuid": uuid, "parent_provider_uuid": parent}
    ).body
    given = {
        "resource_provider_generation": made["generation"],
        "inventories": {resource_class: {"total": total} for resource_class, total in inventories.items()},
    }
    told = control.placement.put(f"/resource_providers/{uuid}/inventories", given)
    assert told.status == 200, told.body
    for trait in traits:
        if trait.startswith("CUSTOM_"):
            assert control.placement.put(f"/traits/{trait}").status in {201, 204}
    generation = told.body["resource_provider_generation"]
    body = {"resource_provider_generation": generation, "traits": list(traits)}
    assert control.placement.put(f"/resource_providers/{uuid}/traits", body).status == 200
    return uuid


def allocations(control: Control, server: str) -> dict[str, dict[str, int]]:
    body = control.placement.get(f"/allocations/{server}").body
    return {uuid: given["resources"] for uuid, given in body["allocations"].items()}


def used(control: Control, provider: str) -> dict[str, int]:
    usages: dict[str, int] = control.placement.get(f"/resource_providers/{provider}/usages").body["usages"]
    return usages


def add_flavor(control: Control, number: str, extra_specs: dict[str, str]) -> None:
    control.add_flavor(number)
    answer = control.admin.post(f"/flavors/{number}/os-extra_specs", {"extra_specs": extra_specs})
    assert answer.status == 200, answer.body


@pytest.fixture
def gpus(control: Control) -> dict[str, list[str]]:
    """One graphics card with one slice below node1, two with one each below node2. Host → cards."""
    root = hosts(control)
    return {
        node: [add_provider(control, f"{node}-gpu{number}", root[node], {"VGPU": 1}) for number in range(count)]
        for node, count in (("node1", 1), ("node2", 2))
    }


def test_isolated_groups_come_from_different_children_and_are_given_back(
    control: Control, gpus: dict[str, list[str]]
) -> None:
    add_flavor(control, "2", ISOLATED)
    server = control.boot(flavorRef="2")
    assert (server["status"], server["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", "node2")
    own = hosts(control)["node2"]
    assert allocations(control, server["id"]) == {
        own: {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1},
        **{card: {"VGPU": 1} for card in gpus["node2"]},
    }
    control.check()

    refused = control.boot(flavorRef="2")
    assert refused["status"] == "ERROR"
    assert refused["fault"]["message"] == "No valid host was found. Placement: providers: 2 of 2 hosts"
    assert "OS-EXT-SRV-ATTR:host" not in refused or refused["OS-EXT-SRV-ATTR:host"] is None

    assert control.admin.delete(f"/servers/{server['id']}").status == 204
    control.settle()
    assert [used(control, card) for card in gpus["node2"]] == [{"VGPU": 0}] * 2
    again = control.boot(flavorRef="2")
    assert again["OS-EXT-SRV-ATTR:host"] == "node2"
    control.check()


def test_a_class_of_a_child_is_found_without_a_group(control: Control, gpus: dict[str, list[str]]) -> None:
    add_flavor(control, "2", {"resources:VGPU": "1"})
    placed = [control.boot(flavorRef="2") for _ in range(4)]
    assert [server["status"] for server in placed] == ["ACTIVE"] * 3 + ["ERROR"]
    assert sorted(server["OS-EXT-SRV-ATTR:host"] for server in placed[:3]) == ["node1", "node2", "node2"]
    cards = {card for cards in gpus.values() for card in cards}
    taken = [card for server in placed[:3] for card in allocations(control, server["id"]) if card in cards]
    assert sorted(taken) == sorted(cards)
    control.check()


def test_servers_of_one_request_see_what_the_ones_before_took(control: Control, gpus: dict[str, list[str]]) -> None:
    add_flavor(control, "2", {"resources1:VGPU": "1"})
    too_many = control.ask(control.admin, flavorRef="2", name="all", min_count=4, max_count=4)
    assert too_many.status == 202
    control.settle()
    assert {used(control, card)["VGPU"] for cards in gpus.values() for card in cards} == {0}
    fitting = control.ask(control.admin, flavorRef="2", name="some", min_count=3, max_count=3)
    assert fitting.status == 202
    control.settle()
    assert {used(control, card)["VGPU"] for cards in gpus.values() for card in cards} == {1}
    control.check()


def test_the_traits_of_a_group_are_those_of_the_child(control: Control) -> None:
    root = hosts(control)
    slow = add_provider(control, "slow", root["node1"], {"VGPU": 4})
    fast = add_provider(control, "fast", root["node1"], {"VGPU": 4}, "CUSTOM_FAST")
    add_flavor(control, "2", {"resources1:VGPU": "1", "trait1:CUSTOM_FAST": "required"})
    add_flavor(control, "3", {"resources1:VGPU": "1", "trait1:CUSTOM_FAST": "forbidden"})
    add_flavor(control, "4", {"resources:VGPU": "1", "trait:CUSTOM_FAST": "required"})
    assert fast in allocations(control, control.boot(flavorRef="2")["id"])
    assert slow in allocations(control, control.boot(flavorRef="3")["id"])
    assert fast in allocations(control, control.boot(flavorRef="4")["id"])
    control.check()


def test_hosts_may_use_what_a_provider_shares_with_them(control: Control) -> None:
    root = hosts(control)
    aggregate = str(uuid4())
    share = add_provider(control, "share", None, {"SRIOV_NET_VF": 10}, "MISC_SHARES_VIA_AGGREGATE")
    for provider in (share, root["node1"]):
        shown = control.placement.get(f"/resource_providers/{provider}/aggregates").body
        body: dict[str, Any] = {
            "aggregates": [*shown["aggregates"], aggregate],
            "resource_provider_generation": shown["resource_provider_generation"],
        }
        assert control.placement.put(f"/resource_providers/{provider}/aggregates", body).status == 200
    add_flavor(control, "2", {"resources:SRIOV_NET_VF": "5"})
    placed = [control.boot(flavorRef="2") for _ in range(3)]
    assert [server["status"] for server in placed] == ["ACTIVE", "ACTIVE", "ERROR"]
    assert {server["OS-EXT-SRV-ATTR:host"] for server in placed[:2]} == {"node1"}
    assert allocations(control, placed[0]["id"])[share] == {"SRIOV_NET_VF": 5}
    assert used(control, share) == {"SRIOV_NET_VF": 10}
    control.check()


def await_checkpoint(control: Control) -> None:
    """Wait for the one that the process takes in the background when it starts."""

    def is_there() -> bool:
        with control.process.database.read() as connection:
            return checkpoints.find(connection, control.process.mirror.seq) is not None

    wait_until(is_there, "a checkpoint is taken")


def test_they_can_be_asked_about_beforehand_and_decided_again(control: Control, gpus: dict[str, list[str]]) -> None:
    add_flavor(control, "2", ISOLATED)
    operator = control.operator
    found = operator.post("/explain", {"flavor": "2", "count": 2}).body
    assert [server["chosen"] for server in found["servers"]] == ["node2", None]
    changes = {change["text"] for miss in found["nearest_miss"] for change in miss["changes"]}
    assert "ask for no VGPU instead of 2" in changes
    await_checkpoint(control)
    for status in ("ACTIVE", "ERROR"):
        server = control.boot(flavorRef="2")
        assert server["status"] == status
        control.process.database.write(lambda tx: tx.now)  # by then the decision is stored, too
        (decision,) = operator.get(f"/decisions/{server['id']}?replay=true").body["decisions"]
        assert decision["replay"] == {"possible": True, "identical": True, "differences": [], "notes": []}
