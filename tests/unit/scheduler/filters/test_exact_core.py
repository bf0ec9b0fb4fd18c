# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.filters.capacity import passes

from kilonova.scheduler.filters import ExactCoreFilter


@pytest.mark.parametrize(("vcpus", "expected"), [(3, False), (4, True), (5, False)])
def test_no_core_may_be_left_over(vcpus: int, expected: bool) -> None:
    assert passes(ExactCoreFilter(), vcpus=vcpus) is expected
