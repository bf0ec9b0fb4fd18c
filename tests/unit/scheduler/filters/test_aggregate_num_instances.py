# SPDX-License-Identifier: Apache-2.0
"""Vectors of AggregateNumInstancesFilter that were executed against Nova's class."""

from collections.abc import Sequence

import pytest
from tests.unit.scheduler.filters.aggregate_limits import LIMITS, accepts
from tests.unit.scheduler.small_cloud import aggregate, host, request, table

from kilonova.scheduler.filters import AggregateNumInstancesFilter
from kilonova.scheduler.settings import SchedulerConfig


@pytest.mark.parametrize(("values", "limit"), LIMITS)
def test_the_smallest_limit_of_the_aggregates_applies(values: Sequence[str | None], limit: int) -> None:
    rule = AggregateNumInstancesFilter.configured(SchedulerConfig(max_instances_per_host=5))
    assert accepts(rule, "max_instances_per_host", values, "num_instances", limit - 1)
    assert not accepts(rule, "max_instances_per_host", values, "num_instances", limit)


def test_aggregates_without_hosts_set_no_limit() -> None:
    hosts = table(host(num_instances=49), aggregates=(aggregate(1, ("gone",), max_instances_per_host="1"),))
    assert AggregateNumInstancesFilter().passes(hosts, request()).tolist() == [True]
