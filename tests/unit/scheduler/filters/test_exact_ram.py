# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.filters.capacity import passes

from kilonova.scheduler.filters import ExactRamFilter


@pytest.mark.parametrize(("memory_mib", "expected"), [(6_655, False), (6_656, True), (6_657, False)])
def test_no_memory_may_be_left_over(memory_mib: int, expected: bool) -> None:
    assert passes(ExactRamFilter(), memory_mib=memory_mib) is expected
