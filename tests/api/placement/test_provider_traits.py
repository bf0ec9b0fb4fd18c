# SPDX-License-Identifier: Apache-2.0
from api.placement.placement_service import Placement


def test_traits_of_a_provider_are_set_with_its_generation(placement: Placement) -> None:
    client, uuid = placement.admin, placement.add("h1")
    path = f"/resource_providers/{uuid}"
    unknown = client.put(f"{path}/traits", {"traits": ["PONY"], "resource_provider_generation": 0})
    assert (unknown.status, unknown.detail) == (400, "No such trait PONY")
    known = {"traits": ["HW_CPU_X86_AVX", "HW_CPU_X86_AVX"], "resource_provider_generation": 0}
    assert client.put(f"{path}/traits", known).body["resource_provider_generation"] == 1
    assert client.put(f"{path}/traits", known).code == "concurrent_update"
    # Setting the present traits once more changes nothing.
    again = client.put(f"{path}/traits", {**known, "resource_provider_generation": 1})
    assert again.body == {"traits": ["HW_CPU_X86_AVX"], "resource_provider_generation": 1}
    assert client.delete(f"{path}/traits").status == 204
    assert client.get(f"{path}/traits").body == {"traits": [], "resource_provider_generation": 2}
