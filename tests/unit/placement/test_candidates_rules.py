# SPDX-License-Identifier: Apache-2.0
"""The terms of the candidate API, one rule a test."""

import numpy as np
from tests.unit.placement.small_trees import SHARES, find, group, of, provider

from kilonova.placement.candidate_query import CandidateQuery
from kilonova.placement.candidates import find_candidates
from kilonova.placement.provider_table import build_provider_table


def test_an_empty_cloud_has_no_candidates() -> None:
    assert find(groups=(group(VCPU=1),)) == set()


def test_the_group_without_suffix_is_not_isolated() -> None:
    assert find(provider("h1", VCPU=4), groups=(group(VCPU=1), group("1", VCPU=1)), isolate=True) == {
        of(h1={"VCPU": 2})
    }


def test_what_is_shared_must_itself_be_in_the_aggregate_asked_for() -> None:
    host = provider("h1", aggregates="share gold", VCPU=4)
    asked = group(VCPU=1, DISK_GB=1, member_of=(frozenset({"gold"}),))
    nfs = provider("nfs", traits=SHARES, aggregates="share", DISK_GB=9)
    assert find(host, nfs, groups=(asked,)) == set()
    nfs = provider("nfs", traits=SHARES, aggregates="share gold", DISK_GB=9)
    assert find(host, nfs, groups=(asked,)) == {of(h1={"VCPU": 1}, nfs={"DISK_GB": 1})}


def test_what_is_shared_is_refused_with_the_aggregate_of_either_side() -> None:
    nfs = provider("nfs", traits=SHARES, aggregates="share", DISK_GB=9)
    for bad in ("share", "silver"):
        asked = group(VCPU=1, DISK_GB=1, not_member_of=frozenset({bad}))
        assert find(provider("h1", aggregates="share silver", VCPU=4), nfs, groups=(asked,)) == set()


def test_in_tree_excludes_what_is_shared_from_outside() -> None:
    host, nfs = provider("h1", aggregates="g", VCPU=4), provider("nfs", traits=SHARES, aggregates="g", DISK_GB=9)
    assert find(host, nfs, groups=(group(VCPU=1, DISK_GB=1, in_tree="h1"),)) == set()
    assert find(host, nfs, groups=(group(VCPU=1, in_tree="h1"), group("D", DISK_GB=1, in_tree="nfs"))) == {
        of(h1={"VCPU": 1}, nfs={"DISK_GB": 1})
    }


def test_old_callers_get_one_provider_of_each_tree() -> None:
    tree = (provider("h1", VCPU=4, DISK_GB=9), provider("gpu", "h1", VGPU=1, DISK_GB=9))
    assert find(*tree, groups=(group(VCPU=1, VGPU=1),), nested=False) == set()
    assert find(*tree, groups=(group(VGPU=1),), nested=False) == {of(gpu={"VGPU": 1})}
    assert find(*tree, groups=(group(VCPU=1, DISK_GB=1),), nested=False) == {of(h1={"VCPU": 1, "DISK_GB": 1})}


def test_a_random_choice_of_all_is_all_in_some_order() -> None:
    table = build_provider_table([provider(f"h{index}", VCPU=1) for index in range(20)])
    query = CandidateQuery((group(VCPU=1),))
    seen = {tuple(find_candidates(table, query, np.random.default_rng(seed)).single) for seed in range(5)}
    assert len(seen) == 5
    assert {tuple(sorted(rows)) for rows in seen} == {tuple(range(20))}


def test_a_random_choice_is_as_large_as_asked_for_where_several_anchors_give_the_same() -> None:
    shares = [provider(f"s{index}", traits=SHARES, aggregates="g", VCPU=1) for index in range(3)]
    table = build_provider_table([*shares, provider("h1", aggregates="g", VCPU=1)])
    query = CandidateQuery((group("1", VCPU=1),), limit=3)
    for seed in range(20):
        assert len(find_candidates(table, query, np.random.default_rng(seed))) == 3
