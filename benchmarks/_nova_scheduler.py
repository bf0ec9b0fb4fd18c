# SPDX-License-Identifier: Apache-2.0
"""Timing of Nova's own filter and weight handlers with the hosts and requests of ``engine.py``.

Runs in ``.venv-nova`` and prints one line of JSON for each number of hosts in its input. Selecting hosts by resources,
traits and aggregates is Placement's work and is not measured here.
"""

import json
import logging
import statistics
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from nova.scheduler.filters import HostFilterHandler
from nova.scheduler.weights import HostWeightHandler

from benchmarks.engine import NOW, engine_with, hosts_and_aggregates, requests
from kilonova.scheduler.host_records import build_host_table
from kilonova.scheduler.settings import DEFAULT_FILTERS, SchedulerConfig
from scheduler_peer import nova_world
from support.random_clouds import Cloud


def measure(size: int, repeats: int, enabled: Sequence[str]) -> list[dict[str, Any]]:
    """Return for each request the ranked hosts, best first, and Nova's median time. Units: milliseconds."""
    records, aggregates = hosts_and_aggregates(size, np.random.default_rng(1))
    states = nova_world.host_states(Cloud(tuple(records), tuple(aggregates)))
    table = build_host_table(records, aggregates, taken_at=NOW)
    placement = engine_with(("AllHostsFilter",))
    known = nova_world.filter_classes()
    weighers = [cls() for cls in nova_world.weigher_classes().values()]
    filter_handler, weight_handler = HostFilterHandler(), HostWeightHandler()
    answers = []
    for spec in requests():
        fitting = {ranked.row for ranked in placement.decide(table, spec, limit=size).ranked}
        given = [state for row, state in enumerate(states) if row in fitting]
        theirs = nova_world.request_spec(spec)

        def decide(names: Sequence[str], given: list[Any] = given, theirs: Any = theirs) -> tuple[float, list[Any]]:
            taken = []
            filters = [known[name]() for name in names]
            for _ in range(repeats):
                start = time.perf_counter()
                left = filter_handler.get_filtered_objects(filters, given, theirs, 0)
                ranked = weight_handler.get_weighed_objects(weighers, left, theirs)
                taken.append((time.perf_counter() - start) * 1e3)
            return statistics.median(taken), ranked

        default_ms, _ = decide(DEFAULT_FILTERS)
        every_ms, ranked = decide(enabled)
        answers.append(
            {
                "given": len(given),
                "default_ms": default_ms,
                "ms": every_ms,
                "ranked": [(each.obj.host, each.weight) for each in ranked],
            }
        )
    return answers


def main() -> None:
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    asked = json.load(sys.stdin)
    nova_world.start(NOW)
    nova_world.configure(SchedulerConfig(enabled_filters=tuple(asked["filters"])))
    for size in asked["sizes"]:
        print(json.dumps(measure(size, asked["repeats"], asked["filters"])), flush=True)


if __name__ == "__main__":
    main()
