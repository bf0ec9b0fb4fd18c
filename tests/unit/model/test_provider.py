# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.model.provider import Inventory, floored_capacity


@pytest.mark.parametrize(
    ("total", "reserved", "ratio", "capacity"),
    [
        (8, 0, 1.0, 8),
        (10, 1, 1.1, 9),
        (3, 0, 0.5, 1),
        (4, 4, 16.0, 0),
        (2, 4, 1.5, -3),
        (2**31 - 1, 0, 3.4e38, 2**62),
    ],
)
def test_the_capacity_is_rounded_down_and_fits_into_64_bits(
    total: int, reserved: int, ratio: float, capacity: int
) -> None:
    assert floored_capacity(total, reserved, ratio) == capacity
    assert Inventory("VCPU", total, reserved, allocation_ratio=ratio).capacity == capacity
