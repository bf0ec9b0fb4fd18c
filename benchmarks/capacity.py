# SPDX-License-Identifier: Apache-2.0
"""Time to count how many more servers of each flavor fit, on the clouds of the benchmark ``engine``.

``plain``: flavors without extra specs. ``judged``: flavors with an extra spec on a capability, so that a filter judges
the hosts after each server.

    python -m benchmarks capacity
"""

import statistics
import time

import numpy as np

from benchmarks.engine import AGGREGATE_FILTERS, cloud, engine_with
from kilonova.model.flavor import Flavor
from kilonova.model.request_spec import RequestSpec
from kilonova.planning.capacity import capacity
from kilonova.scheduler.settings import DEFAULT_FILTERS

#: (hosts, flavors) → goal in seconds.
GOALS_S = {(10_000, 20): 2.0, (100_000, 1): 2.0}
_REPEATS = 3
_KINDS = {"plain": {}, "judged": {"capabilities:hypervisor_version": ">= 7000000"}}


def flavors(count: int, extra_specs: dict[str, str]) -> list[Flavor]:
    return [
        Flavor(
            str(number),
            f"m{number}",
            1 + number % 8,
            1024 * (1 + number),
            10 * (1 + number % 5),
            extra_specs=extra_specs,
        )
        for number in range(count)
    ]


def main(_arguments: list[str]) -> None:
    for filters_name, filters in (("default", DEFAULT_FILTERS), ("all", (*DEFAULT_FILTERS, *AGGREGATE_FILTERS))):
        engine = engine_with(filters)
        for (size, count), goal_s in GOALS_S.items():
            hosts = cloud(size, np.random.default_rng(1))
            for kind, extra_specs in _KINDS.items():
                times = []
                for _ in range(_REPEATS):
                    began = time.perf_counter()
                    fits = [capacity(hosts, RequestSpec(each), engine).fits for each in flavors(count, extra_specs)]
                    times.append(time.perf_counter() - began)
                median_s = statistics.median(times)
                verdict = "" if median_s <= goal_s else f"  MISSED: goal {goal_s} s"
                print(
                    f"{filters_name:8} filters, {size:7,} hosts, {count:2} flavors, {kind}: {median_s:6.3f} s"
                    f" (first {fits[0]:,}){verdict}",
                    flush=True,
                )
