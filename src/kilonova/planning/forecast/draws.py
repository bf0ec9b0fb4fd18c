# SPDX-License-Identifier: Apache-2.0
"""Random draws of a forecast, which depend on its seed only: arrival times, lifetimes, and choices by share."""

from collections.abc import Mapping
from enum import IntEnum

import numpy as np

from kilonova.planning.forecast.durations import DAY_S, HOUR_S, YEAR_S, seconds
from kilonova.planning.forecast.scenario import (
    MOST_ARRIVALS,
    Arrivals,
    Distribution,
    Exponential,
    Fixed,
    Lognormal,
    ScenarioError,
)
from kilonova.scheduler.host_table import FloatArray, IntArray

#: Shortest duration that is drawn, so that a server arrives before it is deleted.
_SHORTEST_S = 0.001
_LONGEST_S = 1e12


class Purpose(IntEnum):
    """What random numbers are for. Each purpose has a generator of its own, so none changes the numbers of another."""

    WORKLOAD = 0
    FAILURES = 1
    RUN = 2
    PRESENT_LIFETIMES = 3


def generator(seed: int, purpose: Purpose) -> np.random.Generator:
    """Return the random generator of a seed for one purpose."""
    return np.random.Generator(np.random.PCG64([seed, purpose]))


def durations(distribution: Distribution, count: int, rng: np.random.Generator) -> FloatArray:
    """Draw ``count`` durations. Units: seconds. Shapes: → (count,)."""
    if isinstance(distribution, Exponential):
        drawn = rng.exponential(seconds(distribution.mean), count)
    elif isinstance(distribution, Lognormal):
        drawn = np.exp(np.minimum(distribution.sigma * rng.standard_normal(count), 700.0)) * seconds(
            distribution.median
        )
    elif isinstance(distribution, Fixed):
        drawn = np.full(count, seconds(distribution.value))
    else:
        values = np.array([seconds(each) for each in distribution.values])
        drawn = values[rng.integers(len(values), size=count)]
    return np.clip(drawn, _SHORTEST_S, _LONGEST_S)


def arrival_times(stream: Arrivals, length_s: float, place: str, rng: np.random.Generator) -> FloatArray:
    """Draw the arrival times of a stream, in ascending order: a Poisson process whose rate changes every hour.

    With ``count``, the number is fixed. ``place``: the path of the stream in its scenario.
    Units: seconds. Shapes: → (N,). Raises: ScenarioError, if there are too many arrivals.
    """
    edges, expected = _rates(stream, length_s)
    passed = np.concatenate([[0.0], np.cumsum(expected)])
    total = float(passed[-1])
    if stream.count is not None:
        if stream.count and not total:
            raise ScenarioError(place, "no server can arrive before the end of the forecast")
        number = stream.count
    else:
        if total > MOST_ARRIVALS:
            raise ScenarioError(f"{place}.per_day", f"there may be at most {MOST_ARRIVALS} arrivals")
        number = int(rng.poisson(total))
    times: FloatArray = np.interp(np.sort(rng.random(number)) * total, passed, edges)
    return times


def _rates(stream: Arrivals, length_s: float) -> tuple[FloatArray, FloatArray]:
    """Return the edges of a stream's hours, and the expected arrivals in each hour. Shapes: (N + 1,), (N,)."""
    begins = seconds(stream.begins)
    ends = length_s if stream.ends is None else min(seconds(stream.ends), length_s)
    if begins >= ends:
        return np.zeros(1), np.zeros(0)
    first, last = int(begins // HOUR_S), int(-(-ends // HOUR_S))
    hours = np.arange(first, last)
    edges = np.clip(np.arange(first, last + 1) * HOUR_S, begins, ends)
    rate = np.full(len(hours), (1.0 if stream.per_day is None else stream.per_day) / DAY_S)
    if stream.daily is not None:
        rate *= _relative(stream.daily)[hours % 24]
    if stream.weekly is not None:
        rate *= _relative(stream.weekly)[hours // 24 % 7]
    rate *= (1 + stream.growth) ** ((edges[:-1] + edges[1:]) / 2 / YEAR_S)
    return edges, rate * np.diff(edges)


def _relative(pattern: tuple[float, ...]) -> FloatArray:
    """Return a pattern with the mean 1."""
    values = np.array(pattern, dtype=np.float64)
    relative: FloatArray = values / values.mean()
    return relative


def choices(shares: Mapping[str, float], count: int, rng: np.random.Generator) -> IntArray:
    """Draw ``count`` indices of ``shares``, each with the probability of its share; 0 if there are no shares."""
    if len(shares) < 2:
        return np.zeros(count, dtype=np.int64)
    passed = np.cumsum(np.array([*shares.values()], dtype=np.float64))
    drawn: IntArray = np.searchsorted(passed, rng.random(count) * passed[-1], side="right")
    return np.minimum(drawn, len(shares) - 1)
