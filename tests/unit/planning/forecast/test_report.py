# SPDX-License-Identifier: Apache-2.0
import json

import pytest

from kilonova.planning.forecast.observations import Counts, Interval
from kilonova.planning.forecast.report import lasts_days
from support.forecasts import forecast_of, hosts, scenario, trace


def test_each_interval_counts_its_own() -> None:
    given = trace((1, 5, "small"), (9.5, 12, "small"), (25, 99, "large"))
    report = forecast_of(scenario(), hosts(2), **given).report()["policies"][0]
    assert [each["until_days"] for each in report["intervals"]] == [10, 20, 30]
    assert [each["arrived"] for each in report["intervals"]] == [2, 0, 1]
    assert [each["servers"] for each in report["intervals"]] == [1, 0, 1]
    assert report["intervals"][2]["usage"]["VCPU"]["used"] == 4 / 16
    assert report["intervals"][2]["usage"]["VCPU"]["deviation"] == 0.25
    assert report["lasts_days"] is None


def interval(day: float, arrived: int, accepted: int) -> Interval:
    return Interval(day * 86_400, Counts(arrived=arrived, accepted=accepted), 1, 0, 0, {})


@pytest.mark.parametrize(
    ("accepted", "wanted"), [((100, 100, 100), None), ((100, 98, 100), 10), ((99, 99, 98), 20), ((0, 100, 100), 0)]
)
def test_the_cloud_lasts_until_too_few_servers_are_accepted(accepted: tuple[int, ...], wanted: float | None) -> None:
    intervals = [interval(10.0 * number, 100, each) for number, each in enumerate(accepted, start=1)]
    assert lasts_days([*intervals, interval(40, 0, 0)], 0.99) == wanted


def test_a_report_is_json() -> None:
    report = forecast_of(scenario(arrivals=[{"per_day": 1, "flavors": {"small": 1}}]), hosts(3)).report()
    assert json.loads(json.dumps(report)) == report
    assert report["policies"][0]["took"]["decision_us"] == {"p50": 0.0, "p90": 0.0, "p99": 0.0, "max": 0.0}
