# SPDX-License-Identifier: Apache-2.0
"""The report of a forecast, JSON-ready. All of it but ``took`` is the same for the same seed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kilonova.planning.forecast.durations import DAY_S
from kilonova.planning.forecast.observations import Counts, Interval
from kilonova.planning.forecast.run import Outcome
from kilonova.planning.forecast.scenario import Scenario
from kilonova.planning.forecast.workload import Workload

_PERCENTILES = {"p50": 50, "p90": 90, "p99": 99, "max": 100}


def report_of(scenario: Scenario, workload: Workload, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the report of all policies."""
    arriving = len(workload.servers) - workload.present
    return {
        "seed": scenario.seed,
        "days": _days(workload.length_s),
        "arrivals": int(np.count_nonzero(workload.servers.arrival[workload.present :] < workload.length_s)),
        "drawn": arriving,
        "present": workload.present,
        "policies": [_of_policy(scenario, each) for each in outcomes],
    }


def _of_policy(scenario: Scenario, outcome: Outcome) -> dict[str, Any]:
    total = Counts()
    for each in outcome.intervals:
        total.add(each.counts)
    return {
        "policy": outcome.policy,
        **_numbers(total),
        "acceptance": total.acceptance,
        "lasts_days": lasts_days(outcome.intervals, scenario.full_below),
        "first_refused_days": {flavor: _days(at) for flavor, at in sorted(outcome.first_refused.items())},
        "refused_flavors": _sorted(total.refused_flavors),
        "checked": outcome.checked,
        "kept": outcome.kept,
        "intervals": [_of_interval(each) for each in outcome.intervals],
        "took": {"decision_us": _percentiles(outcome)},
    }


def lasts_days(intervals: Sequence[Interval], full_below: float) -> float | None:
    """Return the day on which the first interval with a smaller share of accepted servers begins, or None."""
    begins = 0.0
    for each in intervals:
        acceptance = each.counts.acceptance
        if acceptance is not None and acceptance < full_below:
            return _days(begins)
        begins = each.until_s
    return None


def _of_interval(interval: Interval) -> dict[str, Any]:
    return {
        "until_days": _days(interval.until_s),
        **_numbers(interval.counts),
        "hosts": interval.hosts,
        "hosts_down": interval.hosts_down,
        "servers": interval.servers,
        "usage": {
            name: {
                "capacity": each.capacity,
                "used": each.used,
                "deviation": each.deviation,
                "stranded": each.stranded,
            }
            for name, each in interval.usage.items()
        },
    }


def _numbers(counts: Counts) -> dict[str, Any]:
    return {
        "arrived": counts.arrived,
        "accepted": counts.accepted,
        "refused": counts.arrived - counts.accepted,
        "refused_by": _sorted(counts.refused),
        "left": counts.left,
        "moves": counts.moves,
        "failures": counts.failures,
        "evacuated": counts.evacuated,
        "left_over": counts.left_over,
        "resized": counts.resized,
        "resizes_refused": counts.resizes_refused,
    }


def _percentiles(outcome: Outcome) -> dict[str, float]:
    taken = outcome.decision_ns
    if not len(taken):
        return {}
    found = np.percentile(taken, [*_PERCENTILES.values()]) / 1000
    return dict(zip(_PERCENTILES, np.round(found, 1).tolist(), strict=True))


def _sorted(numbers: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(numbers.items(), key=lambda each: (-each[1], each[0])))


def _days(seconds: float) -> float:
    return round(seconds / DAY_S, 6)
