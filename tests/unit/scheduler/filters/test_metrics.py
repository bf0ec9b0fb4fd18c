# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.scheduler.filters import MetricsFilter
from kilonova.scheduler.settings import SchedulerConfig

HOSTS = table(host("all", metrics={"cpu": 0.0, "power": 5.0}), host("one", metrics={"cpu": 1.0}), host("none"))


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ((), [True, True, True]),
        (("cpu=1.0",), [True, True, False]),
        (("cpu=1.0", "power=0"), [True, False, False]),
        (("cpu=1.0", "power"), [True, True, False]),
        (("unreported=1.0",), [False, False, False]),
    ],
)
def test_a_host_must_report_every_metric_of_the_setting(setting: tuple[str, ...], expected: list[bool]) -> None:
    rule = MetricsFilter.configured(SchedulerConfig(metrics_weight_setting=setting))
    assert rule.passes(HOSTS, request()).tolist() == expected
