# SPDX-License-Identifier: Apache-2.0
"""Capacity, units and steps bound what one provider gives."""

from types import SimpleNamespace

import numpy as np
import pytest
from tests.unit.placement.small_trees import find, group, of

from kilonova.model.provider import Inventory
from kilonova.placement.capacity import CommonUnits, most_used
from kilonova.placement.provider_table import ProviderRecord


def test_capacity_units_and_steps_bound_what_one_provider_gives() -> None:
    odd = ProviderRecord("odd", None, (Inventory("VCPU", 10, min_unit=2, max_unit=6, step_size=2),), {"VCPU": 5})
    assert find(odd, groups=(group(VCPU=4),)) == {of(odd={"VCPU": 4})}
    for amount in (1, 3, 6, 8):
        assert find(odd, groups=(group(VCPU=amount),)) == set()


def test_a_class_of_capacity_zero_gives_nothing() -> None:
    assert find(ProviderRecord("h1", None, (Inventory("VCPU", 1, reserved=1),)), groups=(group(VCPU=1),)) == set()


@pytest.mark.parametrize("rows", [1, 30, 3_000])
@pytest.mark.parametrize("kinds", [1, 2, 5])
def test_common_units_allow_an_amount_only_if_all_rows_with_inventory_do(rows: int, kinds: int) -> None:
    rng = np.random.default_rng(rows + kinds)
    kind = rng.integers(0, kinds, rows)
    table = SimpleNamespace(
        min_unit=rng.integers(1, 3, kinds)[kind][:, np.newaxis],
        max_unit=rng.integers(2, 9, kinds)[kind][:, np.newaxis],
        step_size=rng.integers(1, 3, kinds)[kind][:, np.newaxis],
        capacity=rng.integers(0, 2, kinds)[kind][:, np.newaxis] * 20,
    )
    held = table.capacity[:, 0] > 0
    for amount in range(1, 10):
        expected = [
            20 - amount if low <= amount <= high and amount % step == 0 else -1
            for low, high, step in zip(
                table.min_unit[held, 0], table.max_unit[held, 0], table.step_size[held, 0], strict=True
            )
        ]
        assert most_used(table, 0, amount)[held].tolist() == expected
        if CommonUnits.of(table, 0).allow(amount):
            assert set(expected) == {20 - amount}
