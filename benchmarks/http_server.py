# SPDX-License-Identifier: Apache-2.0
"""The HTTP server with real handlers: one client and eight clients, on an idle and on a busy server.

``--other DIR`` also measures another checkout, with its own ``.venv`` and database, in alternating rounds, and prints
the ratios: lower is better for the latency of one client, higher for requests per second.
``--granian PROGRAM`` also measures this checkout under granian, so only the HTTP server differs.
*busy*: two more clients request all candidates of 1,000 hosts all the time, which keeps a thread computing.

    python -m benchmarks http_server [-- [--other DIR | --granian PROGRAM] [--rounds N] [--seconds S]]
"""

import argparse
import itertools
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks._placement_data import claims, flat_hosts, uuid_of
from benchmarks._placement_servers import Connection, Target, drive, ours

HOSTS, CLIENTS = 1_000, 8
_seeds = itertools.count(1)
_CANDIDATES = "/allocation_candidates?resources=VCPU:1,MEMORY_MB:512"


def requests_of(case: str, target: Target, seed: int) -> Iterator[bytes]:
    """Return an endless iterator of requests of one case."""
    if case == "PUT":
        bodies = claims(flat_hosts(HOSTS), seed=seed)
        return (target.request("PUT", f"/allocations/{consumer}", body) for consumer, body in bodies)
    paths = {
        "GET /": "/",
        "GET provider": f"/resource_providers/{uuid_of('host1')}",
        "GET 1 MB": f"{_CANDIDATES}&limit=1000",
    }
    return itertools.repeat(target.request("GET", paths[case]))


def one_client(target: Target, requests: Iterator[bytes], seconds: float) -> float:
    """Return the median latency of one client. Units: microseconds."""
    connection = target.connect()
    taken, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        taken.append(connection.ask(next(requests), 200, 204)[0])
    connection.close()
    return statistics.median(taken) * 1e6


@contextmanager
def busy(target: Target) -> Iterator[None]:
    """Keep two CPU-bound requests running."""
    over = threading.Event()

    def ask() -> None:
        connection = Connection(target, 60)
        while not over.is_set():
            connection.ask(target.request("GET", _CANDIDATES))
        connection.close()

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def measure(targets: Sequence[Target], case: str, *, is_busy: bool, rounds: int, seconds: float) -> None:
    latencies: list[list[float]] = [[] for _ in targets]
    rates: list[list[float]] = [[] for _ in targets]
    costs: list[list[float]] = [[] for _ in targets]
    for turn in range(rounds):
        order = range(len(targets)) if turn % 2 else reversed(range(len(targets)))
        for number in order:
            target, seed = targets[number], next(_seeds)
            with busy(target) if is_busy else ExitStack():
                latencies[number].append(one_client(target, requests_of(case, target, seed), seconds))
                worked = target.cpu_s()
                rate, taken = drive(target, requests_of(case, target, next(_seeds)), CLIENTS, seconds)
                rates[number].append(rate)
                if not is_busy:
                    costs[number].append((target.cpu_s() - worked) / len(taken) * 1e6)
    name = f"{case}{', busy' if is_busy else ''}"
    for target, latency, rate_of, cost in zip(targets, latencies, rates, costs, strict=True):
        cpu = f"   cpu {statistics.median(cost):7.0f} us" if cost else ""
        print(
            f"  {name:<20} {target.name:<7} one client {statistics.median(latency):9.0f} us"
            f"   {CLIENTS} clients {statistics.median(rate_of):8.0f} /s{cpu}"
        )
    if len(targets) == 2:
        slower = statistics.median(one / other for one, other in zip(*latencies, strict=True))
        faster = statistics.median(one / other for one, other in zip(*rates, strict=True))
        print(f"  {name:<20} ratio   one client x {slower:7.2f}      {CLIENTS} clients x {faster:6.2f}", flush=True)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks http_server --", description=__doc__)
    others = parser.add_mutually_exclusive_group()
    others.add_argument("--other", type=Path, help="root of another checkout to compare with")
    others.add_argument("--granian", type=Path, help="path of granian in an environment with Kilonova's requirements")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args(arguments)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; shared by server and clients")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kilonova-bench-")))
        hosts = flat_hosts(HOSTS)
        targets = [stack.enter_context(ours("this", folder / "this", None, hosts))]
        if options.other:
            checkout = options.other.resolve()
            targets.append(stack.enter_context(ours("other", folder / "other", None, hosts, checkout=checkout)))
        if options.granian:
            granian = options.granian.absolute()
            targets.append(stack.enter_context(ours("granian", folder / "granian", None, hosts, granian=granian)))
        for is_busy in (False, True):
            for case in ("GET /", "GET provider", "PUT", "GET 1 MB"):
                measure(targets, case, is_busy=is_busy, rounds=options.rounds, seconds=options.seconds)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
