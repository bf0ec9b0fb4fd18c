# SPDX-License-Identifier: Apache-2.0
"""Scheduling decisions with durable claims through the scheduler's Python interface, on each database.

Default filters and weighers, every commit flushed to disk, decisions not recorded. *single*: one thread makes claims
one by one. *threads*: many threads, whose claims share commits. *together*: requests for 100 servers each.
The floors, measured in the same run: a bare flush to this disk, and a decision of the engine alone.

    python -m benchmarks claims [-- HOSTS [DATABASE ...]]
"""

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks._seeded_cloud import add_hosts, fresh_database, waiting_orders
from kilonova.claims.claimer import Claimer, Order
from kilonova.claims.decision_log import DecisionLog
from kilonova.cli.wiring.rules import build_engine
from kilonova.db.database import Database
from kilonova.errors import KilonovaError
from kilonova.mirror.mirror import Mirror
from kilonova.scheduler.resources import with_resources
from kilonova.scheduler.settings import SchedulerConfig

HOSTS = 10_000
DATABASES = ("sqlite", "postgresql", "mariadb")
SINGLE, THREADED, THREADS, TOGETHER, OF_ONE_REQUEST = 1_000, 10_000, 256, 100, 100
GOAL_SINGLE_PER_S, GOAL_BATCHED_PER_S, GOAL_P99_MS = 1_000, 10_000, 5.0


def flush_floor_ms(repeats: int = 200) -> float:
    """Return the median time to append 4 KiB to a file and flush it to disk."""
    taken = []
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(repeats):
            start = time.perf_counter()
            os.write(file.fileno(), b"x" * 4096)
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e3


def measure(database: Database, hosts: int) -> None:
    add_hosts(database, hosts)
    started = time.time()
    mirror = Mirror.follow(database, clock=lambda: started)  # hosts stay up without heartbeats: the clock is fixed
    engine = build_engine(SchedulerConfig())
    claimer = Claimer(database, mirror, engine, "bench", DecisionLog(database, 0))
    _place(claimer, waiting_orders(database, "bench", 200), 1)  # warm-up
    spec = with_resources(waiting_orders(database, "bench", 1)[0].spec)
    start = time.process_time()
    for _ in range(200):
        engine.decide(mirror.snapshot(), spec, limit=3)
    print(f"  floor: snapshot and decision {(time.process_time() - start) / 200 * 1e6:.0f} us of CPU time")
    _report("single", _place(claimer, waiting_orders(database, "bench", SINGLE), 1))
    _report(f"{THREADS} threads", _place(claimer, waiting_orders(database, "bench", THREADED), THREADS))
    orders = waiting_orders(database, "bench", TOGETHER, servers=OF_ONE_REQUEST)
    _report(f"{OF_ONE_REQUEST} together", _place(claimer, orders, 8), each=OF_ONE_REQUEST)


@dataclass(frozen=True)
class Run:
    """Times of one run. ``taken``: latency of each order; ``computing``: CPU time of this process. Units: seconds."""

    elapsed: float
    computing: float
    taken: list[float]


def _place(claimer: Claimer, orders: Sequence[Order], threads: int) -> Run:
    """Place all orders with ``threads`` threads."""
    waiting, taken, failed = iter(orders), [], []
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                order = next(waiting, None)
            if order is None:
                return
            start = time.perf_counter()
            try:
                claimer.place(order)
            except KilonovaError as error:
                failed.append(error)
                return
            taken.append(time.perf_counter() - start)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    start, computing = time.perf_counter(), time.process_time()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed:
        raise failed[0]
    return Run(time.perf_counter() - start, time.process_time() - computing, taken)


def _report(name: str, run: Run, *, each: int = 1) -> None:
    ordered = sorted(run.taken)
    p50, p99 = (ordered[int(len(ordered) * part)] * 1e3 for part in (0.5, 0.99))
    goal = f"goal {GOAL_SINGLE_PER_S}, p99 {GOAL_P99_MS} ms" if name == "single" else f"goal {GOAL_BATCHED_PER_S}"
    claims = len(run.taken) * each
    print(
        f"  {name:<14}{claims / run.elapsed:9.0f} claims/s   p50 {p50:7.2f} ms   p99 {p99:7.2f} ms   "
        f"CPU time {run.computing / claims * 1e6:5.0f} us per claim   ({goal})",
        flush=True,
    )


def main(options: Sequence[str] = ()) -> None:
    hosts = int(options[0]) if options else HOSTS
    for backend in options[1:] or DATABASES:
        with fresh_database(backend) as database:
            print(f"{backend}, {hosts} hosts, flush to disk {flush_floor_ms():.2f} ms")
            measure(database, hosts)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
