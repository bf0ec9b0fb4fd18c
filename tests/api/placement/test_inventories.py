# SPDX-License-Identifier: Apache-2.0
from uuid import uuid4

import pytest

from api.placement.placement_service import Placement
from support.databases import on_every_database

DEFAULTS = {"reserved": 0, "min_unit": 1, "max_unit": 2147483647, "step_size": 1, "allocation_ratio": 1.0}


@on_every_database
def test_inventories_are_set_whole_or_one_by_one(placement: Placement) -> None:
    client, uuid = placement.admin, placement.add("h1")
    path = f"/resource_providers/{uuid}/inventories"
    created = client.post(path, {"resource_class": "VCPU", "total": 8})
    assert created.status == 201
    assert created.headers["location"] == f"http://cloud/placement{path}/VCPU"
    assert created.body == {"total": 8, **DEFAULTS, "resource_provider_generation": 1}
    assert client.post(path, {"resource_class": "VCPU", "total": 8}).code == "concurrent_update"
    assert client.post(path, {"resource_class": "PONY", "total": 8}).status == 400
    one = {"total": 16, "allocation_ratio": 4.0, "resource_provider_generation": 1}
    assert client.put(f"{path}/VCPU", one).body["resource_provider_generation"] == 2
    assert client.put(f"{path}/VCPU", one).code == "concurrent_update"
    assert "No inventory record" in client.put(f"{path}/DISK_GB", {**one, "resource_provider_generation": 2}).detail
    both = {"inventories": {"VCPU": {"total": 4}, "DISK_GB": {"total": 10, "reserved": 2}}}
    assert client.put(path, {**both, "resource_provider_generation": 1}).code == "concurrent_update"
    answer = client.put(path, {**both, "resource_provider_generation": 2})
    assert answer.body == client.get(path).body
    assert answer.body["inventories"]["DISK_GB"] == {**DEFAULTS, "total": 10, "reserved": 2}
    assert client.get(f"{path}/DISK_GB").body["reserved"] == 2
    assert client.get(f"{path}/VGPU").status == 404
    assert client.delete(f"{path}/VGPU").status == 404
    assert client.delete(f"{path}/DISK_GB").status == 204
    assert client.delete(path).status == 204
    assert client.get(path).body == {"inventories": {}, "resource_provider_generation": 5}


def test_dropping_all_at_once_came_with_1_5(placement: Placement) -> None:
    path = f"/resource_providers/{placement.add('h1', VCPU=1)}/inventories"
    answer = placement.admin.at("1.4").delete(path)
    assert answer.status == 405
    assert "DELETE" not in answer.headers["allow"]


@on_every_database
def test_what_is_used_cannot_be_dropped_but_may_shrink(placement: Placement) -> None:
    client, consumer = placement.admin, str(uuid4())
    uuid = placement.add("h1", VCPU=8, MEMORY_MB=1024, DISK_GB=10)
    path = f"/resource_providers/{uuid}/inventories"
    assert placement.claim(consumer, {uuid: {"VCPU": 6, "DISK_GB": 1}}).status == 204
    dropped = client.delete(path)
    assert (dropped.status, dropped.code) == (409, "inventory.inuse")
    assert f"Inventory for 'VCPU, DISK_GB' on resource provider '{uuid}' in use" in dropped.detail
    assert placement.set_inventories(uuid, {"MEMORY_MB": {"total": 1}}).code == "inventory.inuse"
    assert client.delete(f"{path}/VCPU").status == 409
    assert client.delete(f"/resource_providers/{uuid}").code == "resource_provider.inuse"
    assert client.delete(f"{path}/MEMORY_MB").status == 204
    shrunk = placement.set_inventories(uuid, {"VCPU": {"total": 4}, "DISK_GB": {"total": 10}})
    assert shrunk.status == 200
    assert placement.used(uuid) == {"VCPU": 6, "DISK_GB": 1}
    # Above its capacity a provider takes what does not make it worse.
    assert placement.claim(str(uuid4()), {uuid: {"VCPU": 1}}).status == 409
    assert placement.claim(consumer, {uuid: {"VCPU": 6, "DISK_GB": 2}}).status == 204
    assert placement.claim(consumer, {uuid: {"VCPU": 5}}).status == 204
    assert placement.used(uuid) == {"VCPU": 5, "DISK_GB": 0}


def test_reserved_may_be_all_from_1_26(placement: Placement) -> None:
    uuid = placement.add("h1")
    body = {"inventories": {"VCPU": {"total": 4, "reserved": 4}}, "resource_provider_generation": 0}
    path = f"/resource_providers/{uuid}/inventories"
    assert "greater than or equal" in placement.admin.at("1.25").put(path, body).detail
    assert placement.admin.at("1.26").put(path, body).status == 200
    body = {"inventories": {"VCPU": {"total": 4, "reserved": 5}}, "resource_provider_generation": 1}
    assert "greater than total" in placement.admin.put(path, body).detail
    assert placement.admin.post(path, {"resource_class": "DISK_GB", "total": 1, "reserved": 2}).status == 400


@pytest.mark.parametrize(
    "inventory",
    [
        {},
        {"total": 0},
        {"total": -1},
        {"total": "8"},
        {"total": 2147483648},
        {"total": 1, "min_unit": 0},
        {"total": 1, "step_size": 0},
        {"total": 1, "allocation_ratio": "x"},
        {"total": 1, "allocation_ratio": 1e39},
        {"total": 1, "allocation_ratio": -1.0},
        {"total": 1, "pony": 1},
    ],
)
def test_bad_inventories_are_refused_and_change_nothing(placement: Placement, inventory: object) -> None:
    uuid = placement.add("h1", DISK_GB=1)
    before = placement.everything()
    body = {"inventories": {"DISK_GB": {"total": 5}, "VCPU": inventory}, "resource_provider_generation": 1}
    assert placement.admin.put(f"/resource_providers/{uuid}/inventories", body).status == 400
    assert placement.everything() == before


@pytest.mark.parametrize("name", ["VCPU", "no_class", "CUSTOM_Ü", ""])
@pytest.mark.parametrize("inventory", [None, [], 1, "x", {}, {"total": "x"}, {"totals": 1}])
def test_what_is_no_inventory_is_refused_under_any_name(placement: Placement, name: str, inventory: object) -> None:
    uuid = placement.add("h1")
    body = {"inventories": {name: inventory}, "resource_provider_generation": 0}
    assert placement.admin.put(f"/resource_providers/{uuid}/inventories", body).status == 400


def test_a_capacity_beyond_all_numbers_is_kept_within_them(placement: Placement) -> None:
    uuid = placement.add("h1")
    assert placement.set_inventories(uuid, {"VCPU": {"total": 2147483647, "allocation_ratio": 3e38}}).status == 200
    assert placement.claim(str(uuid4()), {uuid: {"VCPU": 5}}).status == 204
    assert placement.admin.get("/allocation_candidates?resources=VCPU:1").body["allocation_requests"]
