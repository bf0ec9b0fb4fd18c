# SPDX-License-Identifier: Apache-2.0
"""`GET /allocation_candidates`: the shape at each microversion, the words for a bad query, the operator's settings.

What the candidates are is the business of ``tests/properties/test_candidates.py``.
"""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from api.placement.placement_service import Placement, start_placement
from support.api_client import Answer

SHARES = "MISC_SHARES_VIA_AGGREGATE"


def ask(placement: Placement, query: str, version: str = "1.39") -> Answer:
    return placement.admin.at(version).get(f"/allocation_candidates?{query}")


def requests(placement: Placement, query: str, version: str = "1.39") -> list[Any]:
    answer = ask(placement, query, version)
    assert answer.status == 200, answer.raw
    found: list[Any] = answer.body["allocation_requests"]
    return found


@pytest.fixture
def host(placement: Placement) -> str:
    """A host with a device below it and a share beside it."""
    aggregate = str(uuid4())
    root = placement.add("h1", aggregates=(aggregate,), traits=("HW_CPU_X86_AVX",), VCPU=8, MEMORY_MB=1024)
    placement.add("gpu", root, traits=("CUSTOM_GPU",), VGPU=2)
    placement.add("nfs", aggregates=(aggregate,), traits=(SHARES,), DISK_GB=100)
    return root


def uuid_of(placement: Placement, name: str) -> str:
    (found,) = placement.admin.get(f"/resource_providers?name={name}").body["resource_providers"]
    return str(found["uuid"])


def test_requests_change_their_shape_with_the_version(placement: Placement, host: str) -> None:
    query = "resources=VCPU:1,MEMORY_MB:64"
    both = {"VCPU": 1, "MEMORY_MB": 64}
    assert requests(placement, query, "1.11") == [
        {"allocations": [{"resource_provider": {"uuid": host}, "resources": both}]}
    ]
    assert requests(placement, query, "1.33") == [{"allocations": {host: {"resources": both}}}]
    mapped = {"allocations": {host: {"resources": both}}, "mappings": {"": [host]}}
    assert requests(placement, query, "1.34") == [mapped]
    assert placement.claim(str(uuid4()), {host: both}).status == 204
    assert ask(placement, query, "1.9").status == 404


def test_a_query_asked_again_is_answered_from_what_is_there_now(placement: Placement, host: str) -> None:
    query = "resources=VCPU:1,CUSTOM_LICENCE:1&required=CUSTOM_FAST"
    for _ in range(2):
        assert ask(placement, query).status == 400
    placement.admin.put("/resource_classes/CUSTOM_LICENCE")
    assert "CUSTOM_FAST" in ask(placement, query).raw.decode()
    placement.admin.put("/traits/CUSTOM_FAST")
    assert requests(placement, query) == []
    lone = placement.add("h2", traits=("CUSTOM_FAST",), VCPU=2, CUSTOM_LICENCE=1)
    assert [list(each["allocations"]) for each in requests(placement, query)] == [[lone]]
    placement.claim(str(uuid4()), {lone: {"CUSTOM_LICENCE": 1}})
    assert requests(placement, query) == []
    assert ask(placement, query, "1.9").status == 404
    older = ask(placement, query.replace("required=", "required=!"), "1.21")
    assert (older.status, ask(placement, query.replace("required=", "required=!")).status) == (400, 200)


def test_one_provider_alone_has_the_same_shapes(placement: Placement) -> None:
    lone = placement.add("h1", VCPU=4)
    assert requests(placement, "resources=VCPU:1", "1.11") == [
        {"allocations": [{"resource_provider": {"uuid": lone}, "resources": {"VCPU": 1}}]}
    ]
    assert requests(placement, "resources=VCPU:1", "1.12") == [{"allocations": {lone: {"resources": {"VCPU": 1}}}}]
    two = "resources=VCPU:1&resources_A=VCPU:2&group_policy=none"
    assert requests(placement, two) == [
        {"allocations": {lone: {"resources": {"VCPU": 3}}}, "mappings": {"": [lone], "_A": [lone]}}
    ]
    assert requests(placement, two.replace("VCPU:2", "VCPU:4")) == []


def test_a_candidate_may_span_a_tree_and_what_is_shared_with_it(placement: Placement, host: str) -> None:
    gpu, nfs = uuid_of(placement, "gpu"), uuid_of(placement, "nfs")
    query = "resources=VCPU:1,DISK_GB:5&resources_G=VGPU:1&required_G=CUSTOM_GPU"
    (found,) = requests(placement, query)
    assert found == {
        "allocations": {
            host: {"resources": {"VCPU": 1}},
            gpu: {"resources": {"VGPU": 1}},
            nfs: {"resources": {"DISK_GB": 5}},
        },
        "mappings": {"": [host, nfs], "_G": [gpu]},
    }
    # Before 1.29 a candidate takes from one provider of a tree at most; what is shared is another tree.
    assert len(requests(placement, "resources=VCPU:1,VGPU:1", "1.28")) == 0
    assert len(requests(placement, "resources=VCPU:1,VGPU:1", "1.29")) == 1
    assert len(requests(placement, "resources=VCPU:1,DISK_GB:1", "1.28")) == 1
    listed = requests(placement, "resources=VCPU:1,DISK_GB:1", "1.10")[0]["allocations"]
    assert {item["resource_provider"]["uuid"] for item in listed} == {host, nfs}


def test_summaries_grow_with_the_version(placement: Placement, host: str) -> None:
    placement.claim(str(uuid4()), {host: {"VCPU": 3}})
    gpu = uuid_of(placement, "gpu")

    def summaries(version: str) -> dict[str, Any]:
        found: dict[str, Any] = ask(placement, "resources=VCPU:1", version).body["provider_summaries"]
        return found

    asked = {"resources": {"VCPU": {"capacity": 8, "used": 3}}}
    assert summaries("1.16") == {host: asked}
    assert summaries("1.17") == {host: {**asked, "traits": ["HW_CPU_X86_AVX"]}}
    every = {"resources": {**asked["resources"], "MEMORY_MB": {"capacity": 1024, "used": 0}}}
    assert summaries("1.27") == {host: {**every, "traits": ["HW_CPU_X86_AVX"]}}
    assert summaries("1.29") == {
        host: {**every, "traits": ["HW_CPU_X86_AVX"], "parent_provider_uuid": None, "root_provider_uuid": host},
        gpu: {
            "resources": {"VGPU": {"capacity": 2, "used": 0}},
            "traits": ["CUSTOM_GPU"],
            "parent_provider_uuid": host,
            "root_provider_uuid": host,
        },
    }


@pytest.mark.parametrize(
    ("query", "version", "said", "code"),
    [
        ("", "1.24", "'resources' is a required property", None),
        ("resources=", "1.39", "empty string", None),
        ("resources=PONY:1", "1.39", "Invalid resource class in resources parameter", None),
        ("resources=VCPU:1&required=PONY", "1.39", "No such trait(s): PONY", None),
        ("resources=VCPU:1&root_required=!PONY", "1.39", "No such trait(s): PONY", None),
        ("resources=VCPU:1&limit=0", "1.39", "Failed validating 'pattern'", None),
        ("resources=VCPU:1&limit=1", "1.15", "'limit' was unexpected", None),
        ("resources=VCPU:1&in_tree=x", "1.39", "format of uuid", None),
        ("resources=VCPU:1&in_tree=x", "1.30", "does not match any of the regexes", None),
        ("resources=VCPU:1&member_of=x", "1.39", "valid UUID", None),
        ("resources1=VCPU:1", "1.24", "'resources1' was unexpected", None),
        ("resourcesX=VCPU:1", "1.32", "does not match any of the regexes", None),
        (f"resources_{'x' * 64}=VCPU:1", "1.33", "does not match any of the regexes", None),
        ("resources1=VCPU:1&resources2=VCPU:1", "1.39", "group_policy", None),
        ("resources=VCPU:1&group_policy=some", "1.39", "'some' is not one of", None),
        ("required1=HW_CPU_X86_AVX&resources=VCPU:1", "1.35", "orphaned traits keys: required1", None),
        (f"member_of1={uuid4()}&resources=VCPU:1", "1.35", "orphaned member_of keys: member_of1", None),
        (f"in_tree1={uuid4()}&resources=VCPU:1", "1.35", "All request groups must specify resources", None),
        ("limit=1", "1.35", "At least one request group", None),
        ("limit=1", "1.39", "at least one resources", "query.missing_value"),
        ("required1=HW_CPU_X86_AVX&resources=VCPU:1", "1.36", "same_subtree", "query.bad_value"),
        ("resources1=VCPU:1&same_subtree=1,2", "1.36", "['2'] not found", "query.bad_value"),
        ("resources1=VCPU:1&same_subtree=1,", "1.36", "Empty string", "query.bad_value"),
        ("resources=VCPU:1&required=HW_CPU_X86_AVX,!HW_CPU_X86_AVX", "1.39", "Conflicting required", None),
        ("resources=VCPU:1&root_required=HW_CPU_X86_AVX,!HW_CPU_X86_AVX", "1.39", "root_required", "query.bad_value"),
        ("resources=VCPU:1&root_required=HW_CPU_X86_AVX&root_required=X", "1.39", "once", "query.duplicate_key"),
        ("resources=VCPU:1&root_required=in:HW_CPU_X86_AVX", "1.39", "1.39", None),
    ],
)  # fmt: skip
def test_bad_queries_say_what_is_wrong(
    placement: Placement, query: str, version: str, said: str, code: str | None
) -> None:
    answer = ask(placement, query, version)
    assert answer.status == 400
    assert said in answer.detail
    if code is not None:
        assert answer.code == code


def test_what_nobody_has_matches_nothing(placement: Placement, host: str) -> None:
    for query in (
        "resources=PCPU:1",
        f"resources=VCPU:{10**30}",
        "resources=VCPU:1&required=HW_CPU_X86_SSE",
        f"resources=VCPU:1&member_of={uuid4()}",
        f"resources=VCPU:1&in_tree={uuid4()}",
        "resources=VCPU:1&root_required=HW_CPU_X86_SSE",
        "resources=VCPU:1&root_required=!HW_CPU_X86_AVX",
    ):
        assert ask(placement, query).body == {"allocation_requests": [], "provider_summaries": {}}
    assert len(requests(placement, f"resources=VCPU:1&member_of=!{uuid4()}&in_tree={host}")) == 1


def test_answers_follow_every_change(placement: Placement) -> None:
    def free() -> set[str]:
        return {uuid for request in requests(placement, "resources=VCPU:4") for uuid in request["allocations"]}

    consumer = str(uuid4())
    first, second = placement.add("h1", VCPU=4), placement.add("h2", VCPU=4)
    assert free() == {first, second}
    placement.claim(consumer, {first: {"VCPU": 1}})
    assert free() == {second}
    placement.claim(consumer, {second: {"VCPU": 1}})
    assert free() == {first}
    placement.admin.delete(f"/allocations/{consumer}")
    assert free() == {first, second}
    placement.set_inventories(first, {"VCPU": {"total": 2}})
    assert free() == {second}
    placement.admin.delete(f"/resource_providers/{second}")
    assert free() == set()


@pytest.fixture
def configured(database_url: str) -> Any:
    started: list[Placement] = []

    def start(**settings: Any) -> Placement:
        started.append(start_placement(database_url, **settings))
        return started[-1]

    yield start
    for each in started:
        each.database.close()


def test_the_operator_may_bound_the_number_and_ask_for_a_random_choice(
    configured: Callable[..., Placement],
) -> None:
    placement = configured(max_allocation_candidates=5, randomize_allocation_candidates=True)
    uuids = [placement.add(f"h{index}", VCPU=4) for index in range(12)]
    seen = set()
    for _ in range(60):
        found = [next(iter(request["allocations"])) for request in requests(placement, "resources=VCPU:1")]
        assert len(found) == len(set(found)) == 5
        seen.update(found)
    assert seen == set(uuids)
    assert len(requests(placement, "resources=VCPU:1&limit=2")) == 2
    # Summaries are about the candidates that were chosen.
    body = ask(placement, "resources=VCPU:1&limit=2").body
    assert set(body["provider_summaries"]) == {
        uuid for each in body["allocation_requests"] for uuid in each["allocations"]
    }


@pytest.mark.parametrize(("strategy", "roots"), [("depth-first", 1), ("breadth-first", 3)])
def test_the_operator_chooses_how_trees_take_turns(
    configured: Callable[..., Placement], strategy: str, roots: int
) -> None:
    placement = configured(allocation_candidates_generation_strategy=strategy)
    for index in range(3):
        root = placement.add(f"h{index}", VCPU=4)
        for device in range(3):
            placement.add(f"h{index} d{device}", root, VGPU=1)
    body = ask(placement, "resources=VCPU:1,VGPU:1&limit=3").body
    assert len({each["root_provider_uuid"] for each in body["provider_summaries"].values()}) == roots
