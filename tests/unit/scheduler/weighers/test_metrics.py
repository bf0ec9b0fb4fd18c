# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np
import pytest
from tests.unit.scheduler.small_cloud import aggregate, host, request, table
from tests.unit.scheduler.weighers.rated import rated

from kilonova.errors import RuleFailed
from kilonova.scheduler.engine.ranking import shares
from kilonova.scheduler.host_table import ALL_ROWS
from kilonova.scheduler.settings import SchedulerConfig
from kilonova.scheduler.weighers import MetricsWeigher

MEASURED = table(
    host("a", metrics={"cpu": 0.5, "power": 10.0}),
    host("b", metrics={"cpu": 0.25}),
    host("c", metrics={"cpu": 1.0, "power": 20.0}),
    aggregates=(aggregate(1, ("b",), metrics_weight_multiplier="0"),),
)


def metrics_weigher(*setting: str, **options: Any) -> MetricsWeigher:
    return MetricsWeigher.configured(SchedulerConfig(metrics_weight_setting=setting, **options))


def test_metrics_are_added_up_by_their_ratios() -> None:
    assert rated(metrics_weigher("cpu=2.0", "cpu=2.0"), MEASURED) == [2.0, 1.0, 4.0]
    some = metrics_weigher("cpu=4.0", "power=-1.0")
    assert rated(some, MEASURED, rows=np.array([0, 2])) == [-8.0, -16.0]
    assert rated(metrics_weigher(), MEASURED) is None


def test_a_missing_metric_fails_the_request_with_its_name_and_the_host() -> None:
    with pytest.raises(RuleFailed, match="metric power is required") as failure:
        shares([metrics_weigher("cpu=4.0", "power=0")], MEASURED, request(), ALL_ROWS, 3)
    assert failure.value.fields["host"] == "b"
    with pytest.raises(RuleFailed, match="metric disk is required") as failure:
        metrics_weigher("disk=1").weigh(MEASURED, request(), np.array([2]))
    assert failure.value.fields["host"] == "c"


@pytest.mark.parametrize(
    ("setting", "multiplier", "expected"),
    [
        ("power=1", 1.0, [10.0, 0.0, 20.0]),  # the multiplier of b's aggregate is 0
        ("disk=1", 1.0, [-5.0, 0.0, -5.0]),
        ("disk=0", 1.0, [0.0, 0.0, 0.0]),
        ("disk=1", 0.0, [0.0, 0.0, 0.0]),
    ],
)
def test_a_missing_metric_that_is_not_required_gets_the_configured_weight(
    setting: str, multiplier: float, expected: list[float]
) -> None:
    options = {"metrics_weight_of_unavailable": -5.0, "metrics_weight_multiplier": multiplier}
    weigher = metrics_weigher(setting, metrics_required=False, **options)
    assert rated(weigher, MEASURED) == expected
