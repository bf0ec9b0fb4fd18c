# SPDX-License-Identifier: Apache-2.0
"""Upper limits of one Placement query: a query beyond them soon gets a 4xx that names the excess."""

from uuid import uuid4

import pytest

from api.placement.placement_service import Placement, start_placement
from kilonova.api.placement.queries import MOST_CLASSES, MOST_CONDITIONS, MOST_GROUPS
from support.api_client import Answer
from support.worst_texts import cpu_limit

TRAIT = "CUSTOM_T"


def ask(placement: Placement, path: str) -> Answer:
    with cpu_limit(3, path[:100]):
        return placement.admin.get(path)


def names(count: int, prefix: str = "CUSTOM_") -> str:
    return ",".join(f"{prefix}{number}" for number in range(count))


def uuids(count: int) -> str:
    return ",".join(str(uuid4()) for _ in range(count))


TOO_MUCH = {
    "groups": "&".join(f"resources_{number}=VCPU:1" for number in range(MOST_GROUPS + 1)) + "&group_policy=none",
    "classes": "resources=" + ",".join(f"C{number}:1" for number in range(MOST_CLASSES + 1)),
    "required": "resources=VCPU:1&required=" + names(MOST_CONDITIONS + 1),
    "required again and again": "resources=VCPU:1&"
    + "&".join(f"required=in:A,B{i}" for i in range(MOST_CONDITIONS + 1)),
    "subtrees": "resources_1=VCPU:1&" + "&".join(f"same_subtree=_1,_{i}" for i in range(MOST_GROUPS + 1)),
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_a_query_for_candidates_is_bounded(placement: Placement, what: str) -> None:
    answer = ask(placement, f"/allocation_candidates?{TOO_MUCH[what]}")
    assert (answer.status, answer.code) == (400, "query.bad_value")
    assert "are allowed" in answer.detail


@pytest.mark.parametrize(
    "path", ["/resource_providers", "/allocation_candidates", "/traits", "/resource_classes", "/usages"]
)
def test_a_query_has_a_largest_length_and_number_of_parameters(placement: Placement, path: str) -> None:
    assert ask(placement, f"{path}?name={'x' * 40_000}").status == 414
    assert ask(placement, f"{path}?" + "&".join(["name=x"] * 1001)).status == 400


LONG_LISTS = {
    "the same trait": f"required={','.join([TRAIT] * 3000)}",
    "the same trait in many conditions": "&".join([f"required=in:{TRAIT}"] * 900),
    "the same trait, forbidden": f"required={','.join(['!' + TRAIT] * 2500)}",
    "one of many traits": f"required=in:{','.join([TRAIT] * 3000)}",
    "one of many aggregates": f"member_of=in:{uuids(850)}",
    "none of many aggregates": f"member_of=!in:{uuids(850)}",
    "many conditions on aggregates": "&".join(f"member_of={uuids(1)}" for _ in range(500)),
    "the same class": f"resources={','.join(['VCPU:1'] * 4000)}",
    "the same tree": "&".join([f"in_tree={uuid4()}"] * 500),
}


@pytest.mark.parametrize("what", LONG_LISTS)
@pytest.mark.parametrize("path", ["/resource_providers?", "/allocation_candidates?resources=VCPU:1&"])
def test_long_lists_cost_little(placement: Placement, path: str, what: str) -> None:
    placement.add("h1", VCPU=8, traits=(TRAIT,))
    answer = ask(placement, path + LONG_LISTS[what])
    assert answer.status == 200, answer.detail


def test_many_different_traits_are_all_wanted(placement: Placement) -> None:
    several = tuple(f"CUSTOM_{number}" for number in range(60))
    placement.add("h1", VCPU=8, traits=several)
    placement.add("h2", VCPU=8, traits=several[:-1])
    answer = ask(placement, f"/resource_providers?required={','.join(several)}&required=in:{several[0]},{several[1]}")
    assert [found["name"] for found in answer.body["resource_providers"]] == ["h1"]


def test_a_search_that_takes_too_long_says_so(database_url: str) -> None:
    """An empty reply would be wrong, because candidates may exist."""
    started = start_placement(database_url, max_search_steps=2000)
    try:
        root = started.add("h1", VCPU=8)
        for number in range(12):
            started.add(f"d{number}", root, VGPU=7)
        groups = "&".join(f"resources_{number}=VGPU:{3 + number % 3}" for number in range(20))
        answer = ask(started, f"/allocation_candidates?{groups}&group_policy=none&limit=1")
        assert answer.status == 400
        assert "given up after 2000 steps" in answer.detail
        assert ask(started, "/allocation_candidates?resources=VCPU:1&resources_1=VGPU:1").status == 200
    finally:
        started.database.close()
