# SPDX-License-Identifier: Apache-2.0
from api.placement.custom_names import check_custom_names
from api.placement.placement_service import Placement
from support.databases import on_every_database


@on_every_database
def test_custom_traits_are_created_and_deleted(placement: Placement) -> None:
    check_custom_names(placement, "traits", "HW_CPU_X86_AVX", {"traits": ("CUSTOM_THING",)})


def test_traits_are_listed_by_name_prefix_and_use(placement: Placement) -> None:
    client = placement.admin
    placement.add("h1", traits=("CUSTOM_A", "HW_CPU_X86_AVX"))
    client.put("/traits/CUSTOM_B")
    assert client.get("/traits?name=startswith:CUSTOM_").body["traits"] == ["CUSTOM_A", "CUSTOM_B"]
    assert client.get("/traits?name=startswith:custom_").body["traits"] == []
    assert client.get("/traits?name=in:CUSTOM_B,PONY").body["traits"] == ["CUSTOM_B"]
    assert sorted(client.get("/traits?associated=true").body["traits"]) == ["CUSTOM_A", "HW_CPU_X86_AVX"]
    unused = client.get("/traits?associated=false&name=startswith:CUSTOM_")
    assert unused.body["traits"] == ["CUSTOM_B"]
    assert client.get("/traits?associated=maybe").status == 400
    assert client.get("/traits?name=CUSTOM_A").status == 400
