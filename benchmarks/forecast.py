# SPDX-License-Identifier: Apache-2.0
"""A forecast of a large cloud: processor time, memory, and the time of one decision.

100,000 equal hosts in two zones, 1,000,000 arrivals of ten flavors in a year, daily rhythm, log-normal lifetimes with a
median of 120 days, 0.2 % of the servers resized, hosts that fail every 50 years, and 1 % more hosts in each quarter.
The rules are those of `kilonova up`: eleven filters, all weighers. Of the decisions, 1,000 are compared with the whole
engine, bit for bit; the forecast fails if one differs.

    python -m benchmarks forecast [-- HOSTS ARRIVALS]
"""

import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from kilonova.cli.forecasts.described import load_forecast, run_described

HOSTS, ARRIVALS = 100_000, 1_000_000
GOAL_S, GOAL_GIB = 600, 2.0
_TOLD_EVERY_S = 30


def scenario(hosts: int, arrivals: int) -> dict[str, Any]:
    names = [f"node{number}" for number in range(1, hosts + 1)]
    half = hosts // 2
    flavors = [
        {"name": f"m{n}", "vcpus": 1 + n % 5, "memory_mib": 6144 * (1 + n), "disk_gib": 10 * (1 + n % 4)}
        for n in range(10)
    ]
    zones = [
        {"name": zone, "zone": zone, "hosts": part} for zone, part in (("east", names[:half]), ("west", names[half:]))
    ]
    return {
        "length": "1y",
        "cloud": {
            "hosts": [{"name": "node", "count": hosts}],
            "aggregates": zones,
            "flavors": flavors,
            "images": [{"name": "tiny"}],
        },
        "arrivals": [
            {
                "count": arrivals,
                "daily": [1, 1, 1, 1, 1, 1, 2, 4, 6, 8, 8, 8, 6, 8, 8, 8, 6, 4, 3, 2, 2, 1, 1, 1],
                "flavors": {f"m{n}": 10 - n for n in range(10)},
                "images": {"tiny": 1},
                "zones": {"east": 1, "west": 1},
                "lifetimes": {"distribution": "lognormal", "median": "120d", "sigma": 1.0},
                "resizes": {
                    "share": 0.002,
                    "after": {"distribution": "exponential", "mean": "30d"},
                    "flavors": {"m5": 1},
                },
            }
        ],
        "failures": {"mtbf": "50y", "repair": {"distribution": "exponential", "mean": "2d"}},
        "growth": [{"every": "13w", "hosts": max(1, hosts // 100), "like": "node1"}],
    }


def main(options: list[str]) -> None:
    hosts, arrivals = map(int, options) if options else (HOSTS, ARRIVALS)
    told = [time.monotonic()]

    def tell(done: float, text: str) -> None:
        if time.monotonic() - told[0] >= _TOLD_EVERY_S:
            told[0] = time.monotonic()
            print(f"  {done:.1%} {text}, {time.process_time():.0f} s of processor time", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "large.yaml")
        path.write_text(yaml.safe_dump(scenario(hosts, arrivals)), encoding="utf-8")
        wall, busy = time.perf_counter(), time.process_time()
        report = run_described(load_forecast(path), (), tell).report()
        wall, busy = time.perf_counter() - wall, time.process_time() - busy
    found = report["policies"][0]
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{hosts:,} hosts, {arrivals:,} arrivals: {busy:.0f} s of processor time (goal {GOAL_S} s), {wall:.0f} s in all"
    )
    print(f"memory: at most {most:.2f} GiB (goal {GOAL_GIB} GiB)")
    print(f"decisions: {found['took']['decision_us']} us; {found['kept']:,} from kept verdicts")
    numbers = (
        "accepted",
        "refused",
        "left",
        "failures",
        "evacuated",
        "left_over",
        "resized",
        "resizes_refused",
        "checked",
    )
    print(", ".join(f"{name} {found[name]:,}" for name in numbers))
    last = found["intervals"][-1]
    memory = last["usage"]["MEMORY_MB"]["used"]
    print(f"at the end: {last['hosts']:,} hosts, {last['servers']:,} servers, {memory:.1%} of the memory used")


if __name__ == "__main__":
    main(sys.argv[1:])
