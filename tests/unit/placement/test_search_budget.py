# SPDX-License-Identifier: Apache-2.0
"""A search for candidates ends within its budget, and says so when that tells nothing."""

from typing import Any

import numpy as np
import pytest

from kilonova.errors import SearchTooLarge
from kilonova.model.provider import Inventory
from kilonova.placement.candidate_query import CandidateQuery, Group
from kilonova.placement.candidates import candidate_at, find_candidates, roots_with_candidates
from kilonova.placement.provider_table import ProviderRecord, ProviderTable, build_provider_table
from kilonova.placement.search_budget import FREE_STEPS, SearchBudget
from support.worst_texts import cpu_limit


def device(name: str, parent: str, traits: str = "", **totals: int) -> ProviderRecord:
    inventories = tuple(Inventory(name, total) for name, total in totals.items())
    return ProviderRecord(name, parent, inventories, {}, frozenset(traits.split()))


def groups(count: int, *, distinct: bool = False, **resources: int) -> tuple[Group, ...]:
    extra = [{f"CUSTOM_{number}": 1} if distinct else {} for number in range(count)]
    return tuple(Group(f"_{number}", resources | more) for number, more in enumerate(extra))


def cloud(hosts: int, devices: int, **totals: int) -> ProviderTable:
    records = [ProviderRecord(f"h{number}", None, (Inventory("VCPU", 8),)) for number in range(hosts)]
    for number in range(hosts):
        records += [device(f"h{number} d{index}", f"h{number}", **totals) for index in range(devices)]
    return build_provider_table(records)


#: Amounts that add up to less than there is, but pack into no set of devices: 3 + 3 of 5, 4 of 5, and so on.
def unpackable(count: int) -> tuple[Group, ...]:
    return tuple(Group(f"_{number}", {"VGPU": 3 + number % 3}) for number in range(count))


HARD: dict[str, tuple[ProviderTable, CandidateQuery]] = {
    "all ways are asked for": (cloud(3, 10, VGPU=5), CandidateQuery(groups(8, VGPU=1))),
    "isolated": (cloud(3, 12, VGPU=5), CandidateQuery(groups(9, VGPU=1), isolate=True)),
    "packing": (cloud(2, 14, VGPU=7), CandidateQuery(unpackable(24), limit=1)),
    "subtrees": (
        cloud(3, 30, VGPU=5),
        CandidateQuery(
            groups(6, VGPU=1), same_subtrees=(frozenset({"_0", "_1", "_2"}), frozenset({"_3", "_4", "_5"})), limit=1000
        ),
    ),
    "many groups": (cloud(2, 120, VGPU=1), CandidateQuery(groups(119, VGPU=1), isolate=True)),
    "in turn": (cloud(50, 8, VGPU=5), CandidateQuery(groups(7, VGPU=1), breadth_first=True)),
}


@pytest.mark.parametrize("what", HARD)
@pytest.mark.parametrize("seed", [None, 1])
def test_no_search_goes_beyond_its_budget(what: str, seed: int | None) -> None:
    table, query = HARD[what]
    rng = None if seed is None else np.random.default_rng(seed)
    with cpu_limit(3, what), pytest.raises(SearchTooLarge, match="given up after 5000 steps"):
        find_candidates(table, query, rng, SearchBudget(5_000))


def test_giving_up_is_deterministic() -> None:
    table, query = HARD["packing"]

    def outcome(steps: int) -> Any:
        try:
            return find_candidates(table, query, None, SearchBudget(steps)).trees
        except SearchTooLarge:
            return None

    assert [outcome(steps) for steps in (10, 1000, 10_000)] == [outcome(steps) for steps in (10, 1000, 10_000)]


def test_ordinary_searches_cost_nothing() -> None:
    """However many trees there are: what is counted is the trouble with a single one."""
    table = cloud(300, 4, VGPU=5)
    query = CandidateQuery((Group("", {"VCPU": 1}), *groups(2, VGPU=1)), limit=300, breadth_first=True)
    assert FREE_STEPS >= 64
    assert len(find_candidates(table, query, None, SearchBudget(0))) == 300
    able = roots_with_candidates(table, query, np.ones(len(table), dtype=np.bool_), SearchBudget(0))
    assert able.sum() == 300


def test_an_answer_within_the_budget_is_the_same_as_without() -> None:
    table, query = cloud(3, 4, VGPU=5), CandidateQuery(groups(4, VGPU=1), isolate=True)
    assert find_candidates(table, query, None, SearchBudget(None)).trees == find_candidates(table, query).trees
    assert candidate_at(table, query, 0) is not None


def test_a_search_may_be_ended_from_outside() -> None:
    class GoneError(Exception):
        pass

    def gone() -> None:
        raise GoneError

    table, query = HARD["in turn"]
    with pytest.raises(GoneError):
        find_candidates(table, query, None, SearchBudget(None, gone))
