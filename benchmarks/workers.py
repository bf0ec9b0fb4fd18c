# SPDX-License-Identifier: Apache-2.0
"""``GET /servers/detail`` of 1,000 servers by one control process, and by two on the same port, on PostgreSQL.

Both clouds run during the whole benchmark, each on a database of its own. Rounds alternate between them. The load of
generator and database is printed in cores: where it leaves fewer cores than workers, compare CPU time per request.

    python -m benchmarks workers [-- [--servers N] [--clients N] [--rounds N] [--seconds S] [--workers N]]
"""

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

import psutil
from tests.support.database_servers import DatabaseServer, PostgreSQL, running

from benchmarks._placement_servers import Target, drive
from benchmarks.lists import fill
from kilonova.bundled_services.free_ports import free_port

_START_S = 120.0
_GOAL, _GOAL_CPU = 1.6, 1.15


@dataclass(frozen=True, slots=True)
class Round:
    """Figures of one round. Units: requests/s, ms of CPU time per request, cores."""

    rate: float
    server_ms: float
    database_ms: float
    generator_cores: float
    database_cores: float


@contextmanager
def cloud(folder: Path, url: str, workers: int) -> Iterator[Target]:
    """Run ``kilonova api`` with a number of workers until all of them serve."""
    folder.mkdir()
    port = free_port()
    (folder / "kilonova.conf").write_text(
        f"[DEFAULT]\nosapi_compute_workers = {workers}\n[api]\nauth_strategy = noauth2\nbind = 127.0.0.1:{port}\n"
        f"[database]\nconnection = {url}\n[quota]\ninstances = -1\n"
    )
    command = [sys.executable, "-m", "kilonova", "api", "--config-file", str(folder / "kilonova.conf")]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stderr=log)
    try:
        target = Target(f"{workers} control process{'es' * (workers > 1)}", port, "/compute/v2.1", process.pid)
        _wait(folder / "log", target, workers)
        yield target
    finally:
        process.terminate()
        process.wait(60)


def _wait(log: Path, target: Target, workers: int) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        time.sleep(0.1)
        try:
            target.connect(5).ask(request_of(target))
        except OSError:
            continue
        if workers == 1 or log.read_text().count(" serves") == workers:
            return
    raise SystemExit(f"{target.name} did not start:\n{log.read_text()}")


def request_of(target: Target) -> bytes:
    return (
        f"GET {target.prefix}/servers/detail HTTP/1.1\r\nHost: x:{target.port}\r\nX-Auth-Token: u:p\r\n"
        "OpenStack-API-Version: compute 2.104\r\nAccept: application/json\r\n\r\n"
    ).encode()


def cpu_s(server: DatabaseServer) -> dict[int, float]:
    """Return process → CPU time of a database server. Units: seconds."""
    parent = psutil.Process(server.pid)
    found = {}
    for each in (parent, *parent.children(recursive=True)):
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        found[each.pid] = times.user + times.system
    return found


def measure(target: Target, server: DatabaseServer, clients: int, seconds: float) -> Round:
    before, database, generator, began = target.cpu_s(), cpu_s(server), time.process_time(), time.perf_counter()
    rate, taken = drive(target, itertools.repeat(request_of(target)), clients, seconds)
    elapsed, used = time.perf_counter() - began, time.process_time() - generator
    worked = target.cpu_s() - before
    queried = sum(spent - database.get(pid, 0.0) for pid, spent in cpu_s(server).items())
    each = 1000 / len(taken)
    return Round(rate, worked * each, queried * each, used / elapsed, queried / elapsed)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks workers --", description=__doc__)
    parser.add_argument("--servers", type=int, default=1_000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args(arguments)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; shared by servers, database and generator")
    server = PostgreSQL(durable=True)
    with ExitStack() as stack:
        stack.enter_context(running(server))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kilonova-bench-")))
        targets = []
        for workers in (1, options.workers):
            server.create(f"workers{workers}")
            fill(server.url(f"workers{workers}"), options.servers)
            targets.append(stack.enter_context(cloud(folder / str(workers), server.url(f"workers{workers}"), workers)))
        rounds: list[list[Round]] = [[], []]
        for turn in range(options.rounds):
            for number in (0, 1) if turn % 2 else (1, 0):
                rounds[number].append(measure(targets[number], server, options.clients, options.seconds))
    for target, of_target in zip(targets, rounds, strict=True):
        rate, server_ms, database_ms, generator, database = (
            statistics.median(figures) for figures in zip(*map(astuple, of_target), strict=True)
        )
        print(
            f"{target.name:<20} {rate:6.1f} requests/s   CPU per request: control processes {server_ms:6.1f} ms, "
            f"database {database_ms:5.1f} ms   cores: generator {generator:.2f}, database {database:.2f}"
        )
    faster = [two.rate / one.rate for one, two in zip(*rounds, strict=True)]
    dearer = [two.server_ms / one.server_ms for one, two in zip(*rounds, strict=True)]
    print(
        f"requests/s x {statistics.median(faster):.2f} ({min(faster):.2f} - {max(faster):.2f}), goal >= {_GOAL} where "
        f"generator and database take < 0.15 cores; CPU per request x {statistics.median(dearer):.2f} "
        f"({min(dearer):.2f} - {max(dearer):.2f}), goal <= {_GOAL_CPU}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
