# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np
import pytest

from kilonova.planning.forecast.draws import arrival_times, choices, durations
from kilonova.planning.forecast.durations import DAY_S, HOUR_S, YEAR_S
from kilonova.planning.forecast.scenario import (
    Arrivals,
    Distribution,
    Empirical,
    Exponential,
    Fixed,
    Lognormal,
    ScenarioError,
)
from kilonova.scheduler.host_table import FloatArray


def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def times(length_s: float = 100 * DAY_S, **fields: Any) -> FloatArray:
    return arrival_times(Arrivals(flavors={"small": 1.0}, **fields), length_s, "arrivals[0]", rng())


@pytest.mark.parametrize(
    ("distribution", "mean"),
    [
        (Exponential("2d"), 2 * DAY_S),
        (Lognormal("2d", 0.5), 2 * DAY_S * np.exp(0.125)),
        (Fixed("2d"), 2 * DAY_S),
        (Empirical(("1d", "3d")), 2 * DAY_S),
    ],
)
def test_lifetimes_have_the_mean_of_their_distribution(distribution: Distribution, mean: float) -> None:
    assert durations(distribution, 50_000, rng()).mean() == pytest.approx(mean, rel=0.02)


def test_no_lifetime_is_zero_or_endless() -> None:
    assert durations(Fixed("0s"), 3, rng()).min() > 0
    assert np.isfinite(durations(Lognormal("999999999y", 20.0), 1000, rng())).all()


def test_arrivals_have_their_rate_and_are_in_order() -> None:
    found = times(per_day=200.0)
    assert len(found) == pytest.approx(20_000, rel=0.03)
    assert (np.diff(found) >= 0).all()


def test_a_stream_flows_from_its_beginning_to_its_end() -> None:
    found = times(per_day=100.0, begins="10d", ends="20d")
    assert len(found) == pytest.approx(1000, rel=0.15)
    assert 10 * DAY_S <= found.min() < found.max() <= 20 * DAY_S
    assert not len(times(per_day=100.0, begins="1y"))


def test_a_count_is_exact() -> None:
    assert len(times(count=1234)) == 1234
    with pytest.raises(ScenarioError, match="no server can arrive"):
        times(count=1, begins="1y")


def test_patterns_and_growth_change_the_rate_and_not_its_mean() -> None:
    daily = tuple(2.0 if hour == 9 else 0.0 for hour in range(24))
    found = times(per_day=100.0, daily=daily)
    assert len(found) == pytest.approx(10_000, rel=0.04)
    assert set((found // HOUR_S % 24).tolist()) == {9}
    assert set((times(per_day=10.0, weekly=(0, 0, 0, 0, 0, 1, 0)) // DAY_S % 7).tolist()) == {5}
    grown = times(2 * YEAR_S, per_day=100.0, growth=1.0)
    first, second = (grown < YEAR_S).sum(), (grown >= YEAR_S).sum()
    assert second / first == pytest.approx(2.0, rel=0.03)


def test_too_many_arrivals_are_refused() -> None:
    with pytest.raises(ScenarioError, match=r"arrivals\[0\].per_day: there may be at most"):
        times(per_day=1e9)


def test_choices_follow_their_shares() -> None:
    drawn = choices({"a": 3.0, "b": 1.0}, 40_000, rng())
    assert (drawn == 1).mean() == pytest.approx(0.25, abs=0.01)
    assert choices({}, 2, rng()).tolist() == [0, 0]
