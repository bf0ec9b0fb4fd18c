# SPDX-License-Identifier: Apache-2.0
from uuid import uuid4

from api.placement.placement_service import Placement, body_of
from support.databases import on_every_database


@on_every_database
def test_inventories_move_to_a_child_with_what_is_allocated_of_them(placement: Placement) -> None:
    client, consumer = placement.admin.as_user("nova", X_Roles="service"), str(uuid4())
    root = placement.add("h1", VCPU=8, VGPU=4)
    child = placement.add("pgpu", root)
    assert placement.claim(consumer, {root: {"VCPU": 2, "VGPU": 3}}).status == 204
    generation = placement.generation(root)
    shapes = {
        root: {"inventories": {"VCPU": {"total": 8}}, "resource_provider_generation": generation},
        child: {"inventories": {"VGPU": {"total": 4}}, "resource_provider_generation": 0},
    }
    moved = body_of((root, {"VCPU": 2}), (child, {"VGPU": 3}), consumer_generation=1, consumer_type="INSTANCE")
    before = placement.everything()
    left = client.post("/reshaper", {"inventories": shapes, "allocations": {}})
    assert (left.status, left.code) == (409, "inventory.inuse")
    stale = {**shapes, root: {**shapes[root], "resource_provider_generation": 1}}
    assert (
        client.post("/reshaper", {"inventories": stale, "allocations": {consumer: moved}}).code == "concurrent_update"
    )
    small = {**shapes, child: {"inventories": {"VGPU": {"total": 2}}, "resource_provider_generation": 0}}
    assert client.post("/reshaper", {"inventories": small, "allocations": {consumer: moved}}).status == 409
    lost = {**shapes, str(uuid4()): shapes[child]}
    unknown = client.post("/reshaper", {"inventories": lost, "allocations": {consumer: moved}})
    assert (unknown.status, unknown.code) == (400, "resource_provider.not_found")
    odd = {**shapes, child: {"inventories": {"PONY": {"total": 2}}, "resource_provider_generation": 0}}
    assert client.post("/reshaper", {"inventories": odd, "allocations": {}}).status == 400
    assert placement.everything() == before
    assert client.post("/reshaper", {"inventories": shapes, "allocations": {consumer: moved}}).status == 204
    assert (placement.used(root), placement.used(child)) == ({"VCPU": 2}, {"VGPU": 3})
    assert placement.recorded() == placement.sums()
    assert client.at("1.29").post("/reshaper", {}).status == 404
