# SPDX-License-Identifier: Apache-2.0
from uuid import uuid4

import pytest

from api.placement.placement_service import Placement
from support.api_client import Client
from support.databases import on_every_database


def names(client: Client, query: str) -> list[str]:
    answer = client.get(f"/resource_providers?{query}")
    assert answer.status == 200, answer.raw
    return [provider["name"] for provider in answer.body["resource_providers"]]


def test_a_provider_is_created_shown_renamed_and_deleted(placement: Placement) -> None:
    client = placement.admin
    created = client.post("/resource_providers", {"name": "☃"})
    assert created.status == 200
    uuid = created.body["uuid"]
    assert created.headers["location"] == f"http://cloud/placement/resource_providers/{uuid}"
    assert created.body == {
        "uuid": uuid,
        "name": "☃",
        "generation": 0,
        "parent_provider_uuid": None,
        "root_provider_uuid": uuid,
        "links": [
            {"rel": "self", "href": f"/resource_providers/{uuid}"},
            *(
                {"rel": rel, "href": f"/resource_providers/{uuid}/{rel}"}
                for rel in ("inventories", "usages", "aggregates", "traits", "allocations")
            ),
        ],
    }
    assert client.get(f"/resource_providers/{uuid}").body == created.body
    assert client.put(f"/resource_providers/{uuid}", {"name": "h1"}).body["name"] == "h1"
    assert client.delete(f"/resource_providers/{uuid}").status == 204
    assert client.get(f"/resource_providers/{uuid}").status == 404
    assert client.delete(f"/resource_providers/{uuid}").status == 404


def test_older_versions_answer_with_a_location_alone(placement: Placement) -> None:
    answer = placement.admin.at("1.19").post("/resource_providers", {"name": "h1"})
    assert (answer.status, answer.raw) == (201, b"")
    assert "/placement/resource_providers/" in answer.headers["location"]


def test_links_grow_with_the_version(placement: Placement) -> None:
    uuid = placement.add("h1")
    rels = {
        version: [link["rel"] for link in placement.admin.at(version).get(f"/resource_providers/{uuid}").body["links"]]
        for version in ("1.0", "1.1", "1.6", "1.11")
    }
    assert [len(found) for found in rels.values()] == [3, 4, 5, 6]


def test_names_and_uuids_are_unique(placement: Placement) -> None:
    uuid = placement.add("h1")
    other = placement.add("h2")
    for body, said in (
        ({"name": "h1"}, "name: h1"),
        ({"name": "h3", "uuid": uuid.upper().replace("-", "")}, f"uuid: {uuid}"),
        ({"name": "h1", "uuid": uuid}, f"uuid: {uuid}, name: h1"),
    ):
        answer = placement.admin.post("/resource_providers", body)
        assert (answer.status, answer.code) == (409, "duplicate_name")
        assert said in answer.detail
    assert placement.admin.put(f"/resource_providers/{other}", {"name": "h1"}).code == "duplicate_name"
    assert placement.admin.put(f"/resource_providers/{uuid}", {"name": "h1"}).status == 200


@on_every_database
def test_trees_are_built_moved_and_taken_apart(placement: Placement) -> None:
    client = placement.admin
    root, other = placement.add("root"), placement.add("other")
    numa = placement.add("numa", root)
    device = placement.add("device", numa)
    path = f"/resource_providers/{numa}"
    assert client.get(f"/resource_providers/{device}").body["root_provider_uuid"] == root
    assert client.delete(f"/resource_providers/{root}").code == "resource_provider.cannot_delete_parent"
    # Until 1.36 a parent is for ever.
    move = {"name": "numa", "parent_provider_uuid": other}
    assert "re-parenting" in client.at("1.36").put(path, move).detail
    assert "un-parenting" in client.at("1.36").put(path, {**move, "parent_provider_uuid": None}).detail
    assert client.at("1.36").put(path, {**move, "parent_provider_uuid": root}).status == 200
    # From 1.37 a subtree moves as a whole.
    assert client.put(path, move).body["root_provider_uuid"] == other
    assert client.get(f"/resource_providers/{device}").body["root_provider_uuid"] == other
    assert "loop" in client.put(path, {**move, "parent_provider_uuid": device}).detail
    assert "loop" in client.put(path, {**move, "parent_provider_uuid": numa}).detail
    assert client.put(path, {**move, "parent_provider_uuid": None}).body["root_provider_uuid"] == numa
    assert sorted(names(client, f"in_tree={device}")) == ["device", "numa"]
    for uuid in (device, numa, root, other):
        assert client.delete(f"/resource_providers/{uuid}").status == 204


def test_a_parent_must_exist_and_be_another(placement: Placement) -> None:
    uuid = str(uuid4())
    own = placement.admin.post("/resource_providers", {"name": "h1", "uuid": uuid, "parent_provider_uuid": uuid})
    assert own.status == 400
    assert "cannot be same as UUID" in own.detail
    answer = placement.admin.post("/resource_providers", {"name": "h1", "parent_provider_uuid": uuid})
    assert answer.status == 400
    assert "does not exist" in answer.detail


@on_every_database
def test_the_list_is_filtered(placement: Placement) -> None:
    client, gold, silver = placement.admin, str(uuid4()), str(uuid4())
    first = placement.add("h1", aggregates=(gold,), traits=("CUSTOM_SSD",), VCPU=4)
    placement.add("h2", aggregates=(gold, silver), traits=("CUSTOM_SSD", "HW_CPU_X86_AVX"), VCPU=8)
    placement.add("h3", VCPU={"total": 16, "step_size": 4})
    assert names(client, "") == ["h1", "h2", "h3"]
    assert names(client, "name=h2") == ["h2"]
    assert names(client, f"uuid={first}") == ["h1"]
    assert names(client, f"uuid={uuid4()}") == []
    assert names(client, f"in_tree={uuid4()}") == []
    assert names(client, f"member_of={gold}") == ["h1", "h2"]
    assert names(client, f"member_of=in:{silver},{uuid4()}") == ["h2"]
    assert names(client, f"member_of={gold}&member_of={silver}") == ["h2"]
    assert names(client, f"member_of=!{silver}") == ["h1", "h3"]
    assert names(client, f"member_of=!in:{silver},{gold}") == ["h3"]
    assert names(client, "required=CUSTOM_SSD") == ["h1", "h2"]
    assert names(client, "required=CUSTOM_SSD,!HW_CPU_X86_AVX") == ["h1"]
    assert names(client, "required=in:HW_CPU_X86_AVX,CUSTOM_SSD&required=HW_CPU_X86_AVX") == ["h2"]
    assert names(client, "resources=VCPU:5") == ["h2"]
    assert names(client, "resources=VCPU:4") == ["h1", "h2", "h3"]
    assert placement.claim(str(uuid4()), {first: {"VCPU": 1}}).status == 204
    assert names(client, "resources=VCPU:4") == ["h2", "h3"]
    assert names(client, f"resources=VCPU:{10**30}") == []


@pytest.mark.parametrize(
    ("query", "version", "said"),
    [
        ("pony=1", "1.39", "Additional properties"),
        ("required=HW_CPU_X86_AVX", "1.17", "Additional properties"),
        ("member_of=x", "1.2", "Additional properties"),
        ("uuid=spam", "1.39", "is not a 'uuid'"),
        ("member_of=x", "1.39", "valid UUID"),
        (f"member_of={uuid4()},{uuid4()}", "1.39", "in:"),
        (f"member_of={uuid4()}&member_of={uuid4()}", "1.23", "not supported"),
        (f"member_of=!{uuid4()}", "1.31", "not supported"),
        ("resources=VCPU", "1.39", "Badly formed"),
        ("resources=", "1.39", "empty string"),
        ("resources=VCPU:x", "1.39", "positive integer"),
        ("resources=VCPU:0", "1.39", "amount >= 1"),
        ("resources=PONY:1", "1.39", "No such resource class PONY"),
        ("required=", "1.39", "empty trait"),
        ("required=!", "1.39", "empty trait"),
        ("required=!HW_CPU_X86_AVX", "1.21", "HW_CPU_X86_VMX,CUSTOM_MAGIC"),
        ("required=in:HW_CPU_X86_AVX", "1.38", "1.39"),
        ("required=in:HW_CPU_X86_AVX,", "1.39", "empty trait"),
        ("required=in:!HW_CPU_X86_AVX", "1.39", "does not support forbidden"),
        ("required=PONY", "1.39", "No such trait(s): PONY"),
        ("required=!PONY", "1.39", "No such trait(s): PONY"),
    ],
)
def test_bad_filters_say_what_is_wrong(placement: Placement, query: str, version: str, said: str) -> None:
    answer = placement.admin.at(version).get(f"/resource_providers?{query}")
    assert answer.status == 400
    assert said in answer.detail


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "x" * 201},
        {"name": 1},
        {"name": "x", "uuid": "spam"},
        {"name": "x", "pony": 1},
        {"name": "a\0b"},
        {"name": "x", "parent_provider_uuid": "spam"},
        [],
    ],
)
def test_bad_providers_are_refused_and_change_nothing(placement: Placement, body: object) -> None:
    before = placement.everything()
    assert placement.admin.post("/resource_providers", body).status == 400
    assert placement.everything() == before
