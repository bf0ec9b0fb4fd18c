# SPDX-License-Identifier: Apache-2.0
"""Conditions on providers that stand alone."""

from tests.unit.placement.small_trees import find, group, of, provider

CPU = of(h1={"VCPU": 1})


def test_the_root_must_have_and_lack_what_is_said_of_it() -> None:
    hosts = (provider("h1", traits="A", VCPU=1), provider("h2", traits="A B", VCPU=1), provider("h3", VCPU=1))
    assert find(*hosts, groups=(group(VCPU=1),), root_required=frozenset({"A"}), root_forbidden=frozenset({"B"})) == {
        CPU
    }
