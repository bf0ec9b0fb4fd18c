# SPDX-License-Identifier: Apache-2.0
"""Vectors of AggregateIoOpsFilter that were executed against Nova's class."""

from collections.abc import Sequence

import pytest
from tests.unit.scheduler.filters.aggregate_limits import LIMITS, accepts

from kilonova.scheduler.filters import AggregateIoOpsFilter
from kilonova.scheduler.settings import SchedulerConfig


@pytest.mark.parametrize(("values", "limit"), LIMITS)
def test_the_smallest_limit_of_the_aggregates_applies(values: Sequence[str | None], limit: int) -> None:
    rule = AggregateIoOpsFilter.configured(SchedulerConfig(max_io_ops_per_host=5))
    assert accepts(rule, "max_io_ops_per_host", values, "num_io_ops", limit - 1)
    assert not accepts(rule, "max_io_ops_per_host", values, "num_io_ops", limit)
