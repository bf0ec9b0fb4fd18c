# SPDX-License-Identifier: Apache-2.0
"""What the words of the candidate API mean, one sentence a test."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kilonova.model.provider import Inventory
from kilonova.placement.candidate_query import CandidateQuery, Group
from kilonova.placement.candidates import find_candidates
from kilonova.placement.provider_table import ProviderRecord, build_provider_table

SHARES = "MISC_SHARES_VIA_AGGREGATE"
Found = set[frozenset[tuple[str, str, int]]]


def provider(
    uuid: str,
    parent: str | None = None,
    *,
    traits: str = "",
    aggregates: str = "",
    used: Mapping[str, int] | None = None,
    **totals: int,
) -> ProviderRecord:
    inventories = tuple(Inventory(name, total) for name, total in totals.items())
    return ProviderRecord(
        uuid, parent, inventories, used or {}, frozenset(traits.split()), frozenset(aggregates.split())
    )


def group(suffix: str = "", **conditions: Any) -> Group:
    resources = {name: amount for name, amount in conditions.items() if name.isupper()}
    rest = {name: value for name, value in conditions.items() if not name.isupper()}
    return Group(suffix, resources, **rest)


def find(*records: ProviderRecord, groups: tuple[Group, ...], **query: Any) -> Found:
    table = build_provider_table(records)
    found = find_candidates(table, CandidateQuery(groups, **query))
    names, uuids = table.resource_classes, table.uuids
    lone = {frozenset((uuids[row], name, amount) for name, amount in found.totals.items()) for row in found.single}
    return lone | {frozenset((uuids[row], names[column], n) for row, column, n in each.amounts) for each in found.trees}


def of(**uses: Mapping[str, int]) -> frozenset[tuple[str, str, int]]:
    return frozenset((uuid, name, amount) for uuid, amounts in uses.items() for name, amount in amounts.items())


CPU = of(h1={"VCPU": 1})


def test_an_empty_cloud_has_no_candidates() -> None:
    assert find(groups=(group(VCPU=1),)) == set()


def test_capacity_units_and_steps_bound_what_one_provider_gives() -> None:
    odd = ProviderRecord("odd", None, (Inventory("VCPU", 10, min_unit=2, max_unit=6, step_size=2),), {"VCPU": 5})
    assert find(odd, groups=(group(VCPU=4),)) == {of(odd={"VCPU": 4})}
    for amount in (1, 3, 6, 8):
        assert find(odd, groups=(group(VCPU=amount),)) == set()


def test_a_class_of_capacity_zero_gives_nothing() -> None:
    assert find(ProviderRecord("h1", None, (Inventory("VCPU", 1, reserved=1),)), groups=(group(VCPU=1),)) == set()


def test_groups_that_meet_on_one_provider_add_up() -> None:
    full = provider("h1", VCPU=4)
    both = (group(VCPU=2), group("1", VCPU=2))
    assert find(full, groups=both) == {of(h1={"VCPU": 4})}
    assert find(provider("h1", VCPU=3), groups=both) == set()
    tight = ProviderRecord("h1", None, (Inventory("VCPU", 8, max_unit=3),))
    assert find(tight, groups=both) == set()


def test_groups_that_are_isolated_need_a_provider_each() -> None:
    both = (group("1", VCPU=1), group("2", VCPU=1))
    assert find(provider("h1", VCPU=4), groups=both, isolate=True) == set()
    tree = (provider("h1"), provider("a", "h1", VCPU=4), provider("b", "h1", VCPU=4))
    assert find(*tree, groups=both, isolate=True) == {of(a={"VCPU": 1}, b={"VCPU": 1})}
    assert len(find(*tree, groups=both)) == 3


def test_the_group_without_suffix_is_not_isolated() -> None:
    assert find(provider("h1", VCPU=4), groups=(group(VCPU=1), group("1", VCPU=1)), isolate=True) == {
        of(h1={"VCPU": 2})
    }


def test_an_aggregate_of_the_root_spans_its_tree_for_the_group_without_suffix_only() -> None:
    tree = (provider("h1", aggregates="g"), provider("numa", "h1", VCPU=4))
    inside = {"member_of": (frozenset({"g"}),)}
    assert find(*tree, groups=(group(VCPU=1, **inside),)) == {of(numa={"VCPU": 1})}
    assert find(*tree, groups=(group("1", VCPU=1, **inside),)) == set()
    outside = {"not_member_of": frozenset({"g"})}
    assert find(*tree, groups=(group(VCPU=1, **outside),)) == set()
    assert find(*tree, groups=(group("1", VCPU=1, **outside),)) == {of(numa={"VCPU": 1})}


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


def test_sharing_needs_the_trait_and_an_aggregate_in_common() -> None:
    asked = (group(VCPU=1, DISK_GB=1),)
    host = provider("h1", aggregates="share", VCPU=4)
    assert find(host, provider("nfs", aggregates="share", DISK_GB=9), groups=asked) == set()
    assert find(host, provider("nfs", traits=SHARES, aggregates="other", DISK_GB=9), groups=asked) == set()
    assert find(host, provider("nfs", traits=SHARES, DISK_GB=9), groups=asked) == set()
    # Any member of the tree brings the aggregate in.
    tree = (provider("h1", VCPU=4), provider("numa", "h1", aggregates="share"))
    nfs = provider("nfs", traits=SHARES, aggregates="share", DISK_GB=9)
    assert find(*tree, nfs, groups=asked) == {of(h1={"VCPU": 1}, nfs={"DISK_GB": 1})}


def test_what_only_a_share_serves_comes_once_for_all_its_anchors() -> None:
    hosts = [provider(f"h{index}", aggregates="share", VCPU=1) for index in range(3)]
    nfs = provider("nfs", traits=SHARES, aggregates="share", DISK_GB=9)
    for asked in (group(DISK_GB=1), group("1", DISK_GB=1)):
        assert find(*hosts, nfs, groups=(asked,)) == {of(nfs={"DISK_GB": 1})}


def test_in_tree_excludes_what_is_shared_from_outside() -> None:
    host, nfs = provider("h1", aggregates="g", VCPU=4), provider("nfs", traits=SHARES, aggregates="g", DISK_GB=9)
    assert find(host, nfs, groups=(group(VCPU=1, DISK_GB=1, in_tree="h1"),)) == set()
    assert find(host, nfs, groups=(group(VCPU=1, in_tree="h1"), group("D", DISK_GB=1, in_tree="nfs"))) == {
        of(h1={"VCPU": 1}, nfs={"DISK_GB": 1})
    }


def test_the_traits_of_the_group_without_suffix_are_met_together() -> None:
    tree = (provider("h1", traits="A", VCPU=4), provider("disk", "h1", traits="B", DISK_GB=9))
    both = (frozenset({"A"}), frozenset({"B", "C"}))
    assert find(*tree, groups=(group(VCPU=1, DISK_GB=1, required=both),)) == {of(h1={"VCPU": 1}, disk={"DISK_GB": 1})}
    # A member that gives nothing brings no traits.
    assert find(*tree, groups=(group(VCPU=1, required=both),)) == set()
    assert find(*tree, groups=(group(VCPU=1, DISK_GB=1, forbidden=frozenset({"B"})),)) == set()


def test_traits_that_never_come_together_match_nothing() -> None:
    tree = (
        provider("h1"),
        provider("a", "h1", traits="A", VCPU=4),
        provider("b", "h1", traits="B", VCPU=4),
    )
    assert find(*tree, groups=(group(VCPU=1, required=(frozenset({"A"}), frozenset({"B"}))),)) == set()


def test_the_root_must_have_and_lack_what_is_said_of_it() -> None:
    hosts = (provider("h1", traits="A", VCPU=1), provider("h2", traits="A B", VCPU=1), provider("h3", VCPU=1))
    assert find(*hosts, groups=(group(VCPU=1),), root_required=frozenset({"A"}), root_forbidden=frozenset({"B"})) == {
        CPU
    }


def test_same_subtree_means_that_one_of_them_is_above_all() -> None:
    tree = (
        provider("h1"),
        provider("n0", "h1", traits="NUMA", VCPU=4),
        provider("n1", "h1", traits="NUMA", VCPU=4),
        provider("gpu", "n1", VGPU=1),
    )
    asked = (group("_C", VCPU=1), group("_G", VGPU=1))
    assert len(find(*tree, groups=asked)) == 2
    near = find(*tree, groups=asked, same_subtrees=(frozenset({"_C", "_G"}),))
    assert near == {of(n1={"VCPU": 1}, gpu={"VGPU": 1})}
    # A group without resources may stand for the top alone.
    top = (group("_C", VCPU=1), group("_N", required=(frozenset({"NUMA"}),)), group("_G", VGPU=1))
    assert find(*tree, groups=top, same_subtrees=(frozenset({"_C", "_N", "_G"}),)) == near


def test_old_callers_get_one_provider_of_each_tree() -> None:
    tree = (provider("h1", VCPU=4, DISK_GB=9), provider("gpu", "h1", VGPU=1, DISK_GB=9))
    assert find(*tree, groups=(group(VCPU=1, VGPU=1),), nested=False) == set()
    assert find(*tree, groups=(group(VGPU=1),), nested=False) == {of(gpu={"VGPU": 1})}
    assert find(*tree, groups=(group(VCPU=1, DISK_GB=1),), nested=False) == {of(h1={"VCPU": 1, "DISK_GB": 1})}


def test_a_class_that_two_groups_ask_for_and_nobody_has_matches_nothing() -> None:
    tree = (provider("h1", VCPU=1), provider("numa", "h1", VCPU=1))
    asked = (group("1", VGPU=1), group("2", VGPU=1))
    assert find(*tree, groups=asked) == set()
    assert find(provider("h1", VCPU=1), groups=asked) == set()


def test_a_hopeless_puzzle_is_given_up_quickly() -> None:
    """Twelve groups for eleven devices: 11! ways to try, none of them tried twice."""
    devices = [provider(f"d{index}", "h1", VGPU=1) for index in range(11)]
    tree = (provider("h1", VCPU=1), provider("h1 spare", "h1", VGPU=9, traits="B"), *devices)
    groups = tuple(group(str(index), VGPU=1, forbidden=frozenset({"B"})) for index in range(12))
    assert find(*tree, groups=groups, isolate=True) == set()
    pairs = [provider(f"d{index}", "h1", VGPU=3, traits="A") for index in range(6)]
    # Three units each, asked for in pairs: seven pairs do not fit though there are eighteen units.
    asked = tuple(group(str(index), VGPU=2) for index in range(7))
    assert find(provider("h1"), *pairs, groups=asked) == set()


def test_groups_that_compete_for_one_provider_cannot_be_isolated() -> None:
    tree = (
        provider("h1"),
        provider("a", "h1", traits="A", VGPU=9),
        provider("b", "h1", VGPU=9),
        provider("c", "h1", VGPU=9),
    )
    only_a = {"required": (frozenset({"A"}),)}
    groups = (group("1", VGPU=1, **only_a), group("2", VGPU=1, **only_a), group("3", VGPU=1))
    assert find(*tree, groups=groups, isolate=True) == set()
    # A group that settled first makes room for one that has no other choice.
    assert len(find(*tree, groups=(group("1", VGPU=1), group("2", VGPU=1, **only_a)), isolate=True)) == 2


def test_the_search_stops_at_the_limit() -> None:
    devices = [provider(f"d{index}", "h1", VGPU=8) for index in range(8)]
    groups = tuple(group(str(index), VGPU=1) for index in range(8))
    assert len(find(provider("h1"), *devices, groups=groups, limit=5)) <= 5
    many = tuple(group(str(index), VGPU=1) for index in range(300))
    plenty = [provider(f"d{index}", "h1", VGPU=1) for index in range(300)]
    assert len(find(provider("h1"), *plenty, groups=many, isolate=True, limit=1)) == 1


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
