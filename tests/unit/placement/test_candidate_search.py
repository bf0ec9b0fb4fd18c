# SPDX-License-Identifier: Apache-2.0
"""The search on whole columns: aggregates, traits, and requests that a count of units rules out."""

from tests.unit.placement.small_trees import find, group, of, provider


def test_an_aggregate_of_the_root_spans_its_tree_for_the_group_without_suffix_only() -> None:
    tree = (provider("h1", aggregates="g"), provider("numa", "h1", VCPU=4))
    inside = {"member_of": (frozenset({"g"}),)}
    assert find(*tree, groups=(group(VCPU=1, **inside),)) == {of(numa={"VCPU": 1})}
    assert find(*tree, groups=(group("1", VCPU=1, **inside),)) == set()
    outside = {"not_member_of": frozenset({"g"})}
    assert find(*tree, groups=(group(VCPU=1, **outside),)) == set()
    assert find(*tree, groups=(group("1", VCPU=1, **outside),)) == {of(numa={"VCPU": 1})}


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


def test_a_class_that_two_groups_ask_for_and_nobody_has_matches_nothing() -> None:
    tree = (provider("h1", VCPU=1), provider("numa", "h1", VCPU=1))
    asked = (group("1", VGPU=1), group("2", VGPU=1))
    assert find(*tree, groups=asked) == set()
    assert find(provider("h1", VCPU=1), groups=asked) == set()


def test_more_groups_than_free_units_are_refused_by_a_count() -> None:
    """The search in the tree, which would try 11! ways, is not reached."""
    devices = [provider(f"d{index}", "h1", VGPU=1) for index in range(11)]
    tree = (provider("h1", VCPU=1), provider("h1 spare", "h1", VGPU=9, traits="B"), *devices)
    groups = tuple(group(str(index), VGPU=1, forbidden=frozenset({"B"})) for index in range(12))
    assert find(*tree, groups=groups, isolate=True) == set()
    threes = [provider(f"d{index}", "h1", VGPU=3) for index in range(6)]
    # Each provider can serve one pair only, so seven pairs do not fit although 18 units are free.
    pairs = tuple(group(str(index), VGPU=2) for index in range(7))
    assert find(provider("h1"), *threes, groups=pairs) == set()
