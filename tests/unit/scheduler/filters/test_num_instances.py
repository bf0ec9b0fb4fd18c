# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.scheduler.filters import NumInstancesFilter
from kilonova.scheduler.settings import SchedulerConfig


@pytest.mark.parametrize(("limit", "expected"), [(0, False), (3, False), (4, True)])
def test_the_number_of_servers_must_be_below_the_limit(limit: int, expected: bool) -> None:
    rule = NumInstancesFilter.configured(SchedulerConfig(max_instances_per_host=limit))
    assert rule.passes(table(host(num_instances=3, num_io_ops=9)), request()).tolist() == [expected]
