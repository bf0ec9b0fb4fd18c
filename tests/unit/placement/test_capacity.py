# SPDX-License-Identifier: Apache-2.0
"""Capacity, units and steps bound what one provider gives."""

from tests.unit.placement.small_trees import find, group, of

from kilonova.model.provider import Inventory
from kilonova.placement.provider_table import ProviderRecord


def test_capacity_units_and_steps_bound_what_one_provider_gives() -> None:
    odd = ProviderRecord("odd", None, (Inventory("VCPU", 10, min_unit=2, max_unit=6, step_size=2),), {"VCPU": 5})
    assert find(odd, groups=(group(VCPU=4),)) == {of(odd={"VCPU": 4})}
    for amount in (1, 3, 6, 8):
        assert find(odd, groups=(group(VCPU=amount),)) == set()


def test_a_class_of_capacity_zero_gives_nothing() -> None:
    assert find(ProviderRecord("h1", None, (Inventory("VCPU", 1, reserved=1),)), groups=(group(VCPU=1),)) == set()
