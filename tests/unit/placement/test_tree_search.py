# SPDX-License-Identifier: Apache-2.0
"""The search in one tree: subtrees, isolation, and dead ends."""

from tests.unit.placement.small_trees import find, group, of, provider


def test_groups_that_are_isolated_need_a_provider_each() -> None:
    both = (group("1", VCPU=1), group("2", VCPU=1))
    assert find(provider("h1", VCPU=4), groups=both, isolate=True) == set()
    tree = (provider("h1"), provider("a", "h1", VCPU=4), provider("b", "h1", VCPU=4))
    assert find(*tree, groups=both, isolate=True) == {of(a={"VCPU": 1}, b={"VCPU": 1})}
    assert len(find(*tree, groups=both)) == 3


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


def test_a_hopeless_puzzle_is_given_up_quickly() -> None:
    """Eleven groups need one of ten devices each. Without memory of dead ends, the search raises SearchTooLarge."""
    devices = [provider(f"d{index}", "h1", VGPU=1, traits="A" if index < 10 else "") for index in range(12)]
    only_a = {"required": (frozenset({"A"}),)}
    groups = tuple(group(str(index), VGPU=1, **(only_a if index < 11 else {})) for index in range(12))
    assert find(provider("h1"), *devices, groups=groups) == set()


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
    assert len(find(provider("h1"), *devices, groups=groups, limit=5)) == 5
    many = tuple(group(str(index), VGPU=1) for index in range(300))
    plenty = [provider(f"d{index}", "h1", VGPU=1) for index in range(300)]
    assert len(find(provider("h1"), *plenty, groups=many, isolate=True, limit=1)) == 1
