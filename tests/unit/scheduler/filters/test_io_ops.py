# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.scheduler.filters import IoOpsFilter
from kilonova.scheduler.settings import SchedulerConfig


@pytest.mark.parametrize(("limit", "expected"), [(0, False), (3, False), (4, True)])
def test_the_running_operations_must_be_below_the_limit(limit: int, expected: bool) -> None:
    rule = IoOpsFilter.configured(SchedulerConfig(max_io_ops_per_host=limit))
    assert rule.passes(table(host(num_io_ops=3, num_instances=9)), request()).tolist() == [expected]
