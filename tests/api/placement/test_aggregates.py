# SPDX-License-Identifier: Apache-2.0
from uuid import uuid4

from api.placement.placement_service import Placement


def test_aggregates_of_a_provider_are_set_with_its_generation_from_1_19(placement: Placement) -> None:
    client, uuid, aggregate = placement.admin, placement.add("h1"), str(uuid4())
    path = f"/resource_providers/{uuid}"
    old = client.at("1.18").put(f"{path}/aggregates", [aggregate])
    assert old.body == {"aggregates": [aggregate]}
    assert placement.generation(uuid) == 0
    assert client.get(f"{path}/aggregates").body["aggregates"] == [aggregate]
    body = {"aggregates": [], "resource_provider_generation": 1}
    assert client.put(f"{path}/aggregates", body).code == "concurrent_update"
    body["resource_provider_generation"] = 0
    assert client.put(f"{path}/aggregates", body).body == {"aggregates": [], "resource_provider_generation": 1}
    assert client.get(f"{path}/aggregates").body == {"aggregates": [], "resource_provider_generation": 1}
