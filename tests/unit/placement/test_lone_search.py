# SPDX-License-Identifier: Apache-2.0
"""Conditions on providers that stand alone."""

from tests.unit.placement.small_trees import find, group, of, provider

from kilonova.model.provider import Inventory
from kilonova.placement.provider_table import ProviderRecord

CPU = of(h1={"VCPU": 1})


def test_the_root_must_have_and_lack_what_is_said_of_it() -> None:
    hosts = (provider("h1", traits="A", VCPU=1), provider("h2", traits="A B", VCPU=1), provider("h3", VCPU=1))
    assert find(*hosts, groups=(group(VCPU=1),), root_required=frozenset({"A"}), root_forbidden=frozenset({"B"})) == {
        CPU
    }


def test_groups_that_meet_on_one_provider_add_up() -> None:
    full = provider("h1", VCPU=4)
    both = (group(VCPU=2), group("1", VCPU=2))
    assert find(full, groups=both) == {of(h1={"VCPU": 4})}
    assert find(provider("h1", VCPU=3), groups=both) == set()
    tight = ProviderRecord("h1", None, (Inventory("VCPU", 8, max_unit=3),))
    assert find(tight, groups=both) == set()
