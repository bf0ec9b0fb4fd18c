# SPDX-License-Identifier: Apache-2.0
from api.placement.custom_names import check_custom_names
from api.placement.placement_service import Placement
from support.databases import on_every_database


@on_every_database
def test_custom_resource_classes_are_created_and_deleted(placement: Placement) -> None:
    check_custom_names(placement, "resource_classes", "VCPU", {"CUSTOM_THING": 1})


def test_resource_classes_are_renamed_until_1_6(placement: Placement) -> None:
    client = placement.admin.at("1.6")
    uuid = placement.add("h1", CUSTOM_OLD=3)
    renamed = client.put("/resource_classes/CUSTOM_OLD", {"name": "CUSTOM_NEW"})
    assert renamed.body["name"] == "CUSTOM_NEW"
    assert client.put("/resource_classes/VCPU", {"name": "CUSTOM_CPU"}).status == 400
    assert client.put("/resource_classes/CUSTOM_OLD", {"name": "CUSTOM_CPU"}).status == 404
    client.post("/resource_classes", {"name": "CUSTOM_CPU"})
    assert client.put("/resource_classes/CUSTOM_CPU", {"name": "CUSTOM_NEW"}).status == 409
    assert client.post("/resource_classes", {"name": "CUSTOM_CPU"}).status == 409
    assert list(client.get(f"/resource_providers/{uuid}/inventories").body["inventories"]) == ["CUSTOM_NEW"]
    found = placement.admin.get("/allocation_candidates?resources=CUSTOM_NEW:1").body
    assert list(found["provider_summaries"]) == [uuid]
