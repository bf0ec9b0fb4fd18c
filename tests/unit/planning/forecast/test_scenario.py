# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from kilonova.planning.forecast.scenario import Exponential, ScenarioError, scenario_of

ARRIVALS: dict[str, Any] = {"per_day": 1, "flavors": {"small": 1}}


def test_a_scenario_has_defaults() -> None:
    found = scenario_of(
        {"length": "52d", "arrivals": [{**ARRIVALS, "lifetimes": {"distribution": "exponential", "mean": "2d"}}]}
    )
    assert (found.seed, found.length_s, found.interval_s) == (1, 52 * 86400, 86400)
    assert found.arrivals[0].lifetimes == Exponential("2d")


@pytest.mark.parametrize(
    ("content", "field", "text"),
    [
        ([], "", "must be a mapping"),
        ({}, "", "required field `length`"),
        ({"length": "5"}, "length", "duration such as 12h"),
        ({"length": "0s"}, "length", "more than 0"),
        ({"length": "1y", "interval": "1s"}, "interval", "at most 10000 intervals"),
        ({"length": "1y", "color": 1}, "color", "unknown field"),
        ({"length": "1y", "seed": -1}, "seed", "`int` >= 0"),
        ({"length": "1y", "arrivals": [{"flavors": {"s": 1}}]}, "arrivals[0]", "one of `per_day` and `count`"),
        ({"length": "1y", "arrivals": [{**ARRIVALS, "count": 2}]}, "arrivals[0]", "one of `per_day` and `count`"),
        ({"length": "1y", "arrivals": [{**ARRIVALS, "flavors": {}}]}, "arrivals[0].flavors", "at least one flavor"),
        ({"length": "1y", "arrivals": [{**ARRIVALS, "flavors": {"s": 0}}]}, "arrivals[0].flavors[...]", "> 0"),
        (
            {"length": "1y", "arrivals": [{**ARRIVALS, "per_day": "x"}]},
            "arrivals[0].per_day",
            "expected `float | null`",
        ),
        ({"length": "1y", "arrivals": [{**ARRIVALS, "per_day": float("nan")}]}, "arrivals[0].per_day", ">= 0"),
        ({"length": "1y", "arrivals": [{**ARRIVALS, "daily": [0] * 24}]}, "arrivals[0].daily", "more than 0"),
        ({"length": "1y", "arrivals": [{**ARRIVALS, "daily": [1]}]}, "arrivals[0].daily", "length"),
        ({"length": "1y", "arrivals": [{**ARRIVALS, "ends": "0s"}]}, "arrivals[0].ends", "after `begins`"),
        (
            {"length": "1y", "arrivals": [{**ARRIVALS, "lifetimes": {"distribution": "odd"}}]},
            "arrivals[0].lifetimes.distribution",
            "'odd'",
        ),
        (
            {"length": "1y", "failures": {"mtbf": "0s", "repair": {"distribution": "fixed", "value": "1d"}}},
            "failures.mtbf",
            "more than 0",
        ),
        ({"length": "1y", "growth": [{"hosts": 1, "like": "a"}]}, "growth[0]", "one of `at` and `every`"),
        ({"length": "1y", "growth": [{"hosts": 1, "like": "a", "every": "0s"}]}, "growth[0].every", "at most 10000"),
    ],
)
def test_an_error_names_its_field(content: Any, field: str, text: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario_of(content)
    assert caught.value.field == field
    assert text in caught.value.message
    assert caught.value.message.startswith(f"{field}: " if field else "")
