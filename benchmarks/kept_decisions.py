# SPDX-License-Identifier: Apache-2.0
"""Processor time and memory of decisions from kept verdicts, compared with the whole engine in the same run.

Hosts, rules and requests are those of the benchmark ``engine``. Before each decision, the best host of the decision
before takes the server. *whole*: the engine with all rules on all hosts. *kept*: the same decision from kept verdicts.
*first*: the first request of all, which also rates all hosts. *new*: the first request of another shape. *mixed*:
requests of 200 shapes in random order, so that many hosts have changed since the last request of a shape. Times are
processor time, which other processes on the machine affect less.

    python -m benchmarks kept_decisions [-- HOSTS ...]
"""

import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.engine import KINDS, LIMIT, NOW, cloud, engine, requests
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.decision import Decision
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.kept_decisions import KeptDecisions, differences
from kilonova.scheduler.live_hosts import LiveHosts
from kilonova.scheduler.memo import Memo
from kilonova.scheduler.resources import with_resources
from kilonova.scheduler.row_changes import RowChanges

SIZES = (100, 10_000, 100_000)
SHAPES = 200
REPEATS = 400
NEW = 40
GOALS_US = {10_000: 100, 100_000: 200, 1_000_000: 2_000}
GOALS_NEW_US = {10_000: 450, 100_000: 2_700, 1_000_000: 30_000}


def live_hosts(size: int) -> LiveHosts:
    hosts = cloud(size, np.random.default_rng(1))
    return LiveHosts(hosts, RowChanges(size), lambda now: np.full(size, now))


def place(live: LiveHosts, decision: Decision, rng: np.random.Generator) -> None:
    """Put a server on the best host, or on a random one if no host is left."""
    hosts = live.hosts
    row = decision.ranked[0].row if decision.ranked else int(rng.integers(len(hosts)))
    hosts.used[row, :3] += (1, 2_048, 20)
    hosts.num_instances[row] += 1
    hosts.num_io_ops[row] = (hosts.num_io_ops[row] + 1) % 6
    live.changes.mark(row)


def taken_us(decide: Callable[[], Decision]) -> tuple[float, Decision]:
    start = time.thread_time()
    decision = decide()
    return (time.thread_time() - start) * 1e6, decision


def one_shape(chosen: Engine, size: int, kind: int) -> None:
    live, spec, rng = live_hosts(size), requests()[kind], np.random.default_rng(2)
    kept = KeptDecisions(chosen)
    chosen.decide(live.at(NOW), spec, limit=LIMIT)  # fills the cache of the table
    first, _ = taken_us(lambda: kept.decide(live, NOW, spec, limit=LIMIT))
    decision = kept.decide(live, NOW, spec, limit=LIMIT)
    mine: list[float] = []
    whole: list[float] = []
    for number in range(REPEATS):
        place(live, decision, rng)
        taken, decision = taken_us(lambda: kept.decide(live, NOW, spec, limit=LIMIT))
        mine.append(taken)
        if number % 4 == 0:
            taken, other = taken_us(lambda: chosen.decide(live.at(NOW), spec, limit=LIMIT))
            whole.append(taken)
            assert not differences(decision, other)
    new: list[float] = []
    for each in [shape for number, shape in enumerate(shapes()) if number % len(KINDS) == kind][:NEW]:
        place(live, decision, rng)
        taken, decision = taken_us(lambda: kept.decide(live, NOW, each, limit=LIMIT))  # noqa: B023
        new.append(taken)
    low, high = (sorted(mine)[int(len(mine) * part)] for part in (0.1, 0.9))
    print(
        f"{size:>8,} {KINDS[kind]:<15} {statistics.median(whole):>9.0f} {statistics.median(mine):>8.0f} {low:>6.0f} "
        f"{high:>6.0f} {statistics.median(whole) / statistics.median(mine):>6.1f} x {first:>8.0f} "
        f"{statistics.median(new):>8.0f} {GOALS_US.get(size, ''):>8} {GOALS_NEW_US.get(size, ''):>8}",
        flush=True,
    )


def shapes() -> list[RequestSpec]:
    """Return requests of 200 shapes: 67 flavors for each kind of request."""
    made = []
    for number in range(SHAPES):
        spec = requests()[number % len(KINDS)]
        flavor = replace(
            spec.flavor,
            flavor_id=str(number),
            vcpus=1 + number % 5,
            memory_mib=1_024 + 8 * number,
            root_gib=number % 40,
        )
        made.append(with_resources(replace(spec, flavor=flavor)))
    return made


def mixed(chosen: Engine, size: int) -> None:
    live, specs, rng = live_hosts(size), shapes(), np.random.default_rng(2)
    kept, alone = KeptDecisions(chosen), KeptDecisions(chosen)
    for spec in [*specs, *specs, *specs]:
        decision = kept.decide(live, NOW, spec, limit=LIMIT)
    for _ in range(3):
        alone.decide(live, NOW, specs[0], limit=LIMIT)
    many: list[float] = []
    one: list[float] = []
    for number in range(4 * REPEATS):
        place(live, decision, rng)
        spec = specs[int(rng.integers(SHAPES))]
        taken, decision = taken_us(lambda: kept.decide(live, NOW, spec, limit=LIMIT))  # noqa: B023
        many.append(taken)
        taken, _ = taken_us(lambda: alone.decide(live, NOW, specs[0], limit=LIMIT))
        one.append(taken)
        if number % 50 == 0:
            assert not differences(decision, chosen.decide(live.at(NOW), spec, limit=LIMIT))
    ratio = statistics.median(many[SHAPES:]) / statistics.median(one[SHAPES:])
    print(
        f"{size:>8,} {SHAPES} shapes mixed: {statistics.median(many[SHAPES:]):.0f} us, one of them alone: "
        f"{statistics.median(one[SHAPES:]):.0f} us ({ratio:.2f} x, goal 2 x), memory {memory_mib(chosen, size):.1f} MiB"
    )


class NoMemo(Memo):
    """Memo that keeps nothing, so that only kept decisions take memory."""

    def get(self, key: Hashable, compute: Callable[[], Any]) -> Any:  # noqa: ARG002
        return compute()


def memory_mib(chosen: Engine, size: int) -> float:
    """Return the memory of 200 kept shapes."""
    live = live_hosts(size)
    live = replace(live, hosts=replace(live.hosts, memo=NoMemo()))
    kept = KeptDecisions(chosen)
    tracemalloc.start()
    for spec in (each for each in shapes() for _ in range(2)):
        kept.decide(live, NOW, spec, limit=LIMIT)
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return memory / 2**20


def main(options: list[str]) -> None:
    chosen = engine()
    print("median microseconds of processor time; p10 and p90 of the decisions from kept verdicts")
    print(
        f"{'hosts':>8} {'request':<15} {'whole':>9} {'kept':>8} {'p10':>6} {'p90':>6} {'ratio':>8} {'first':>8} "
        f"{'new':>8} {'goal':>8} {'new goal':>8}"
    )
    for size in map(int, options or SIZES):
        for kind in range(len(KINDS)):
            one_shape(chosen, size, kind)
        mixed(chosen, size)


if __name__ == "__main__":
    main(sys.argv[1:])
