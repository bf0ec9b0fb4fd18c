# SPDX-License-Identifier: Apache-2.0
"""``POST /servers`` to ACTIVE: agent processes over RabbitMQ compared with agents in the control process.

The two clouds (``_agent_clouds.py``) have the same hosts and run all the time. Rounds alternate between them; a ratio
is the median of the ratios of the rounds. Printed for each cloud are the latency of one client that creates servers one
by one (p99: over all rounds), servers per second with many clients and in requests of 100, the CPU time per server of
each kind of process, and the final memory of each process.

    python -m benchmarks agents [-- AGENTS [HOSTS [ROUNDS]]]
"""

import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.database_servers import PostgreSQL, running

from benchmarks._agent_clouds import Cloud, cloud_in_one_process, cloud_over_a_broker, postgresql_cpu_s

AGENTS, HOSTS, ROUNDS = 4, 100, 5
GOAL_RATE, GOAL_P50 = 0.7, 2.5
_ONE_BY_ONE = 60
_TOGETHER = 320
_CLIENTS = 8
_REQUESTS, _AT_ONCE = 4, 100
_POLL_S = 0.005


@dataclass
class _Figures:
    """Results of the rounds of one cloud.

    ``many``, ``hundreds``: servers per second with many clients, and in requests of 100.
    ``cpu_ms``: kind of process → CPU time per server of ``many``, in milliseconds.
    """

    latencies_ms: list[float] = field(default_factory=list)
    p50_ms: list[float] = field(default_factory=list)
    many: list[float] = field(default_factory=list)
    hundreds: list[float] = field(default_factory=list)
    cpu_ms: dict[str, list[float]] = field(default_factory=dict)


def main(options: Sequence[str] = ()) -> None:
    given = [int(text) for text in options]
    agents, hosts, rounds = (*given, *(AGENTS, HOSTS, ROUNDS)[len(given) :])
    print(f"{os.cpu_count()} cores, shared by clients, servers and database; {hosts} hosts, {agents} agent processes")
    server = PostgreSQL(durable=True)
    with running(server), TemporaryDirectory(prefix="kilonova-bench-") as name, ExitStack() as undo:
        folder = Path(name)
        folder.chmod(0o711)  # the broker needs access, and may run as another user
        inside = undo.enter_context(cloud_in_one_process(folder / "inside", server, hosts))
        apart = undo.enter_context(cloud_over_a_broker(folder / "apart", server, hosts, agents))
        figures = {inside.name: _Figures(), apart.name: _Figures()}
        for cloud in (inside, apart):
            _one_by_one(cloud, 5)
        for number in range(rounds):
            for cloud in (inside, apart) if number % 2 else (apart, inside):
                _round(cloud, server, figures[cloud.name])
        for cloud in (inside, apart):
            _tell(cloud, figures[cloud.name])
        _tell_ratios(figures[inside.name], figures[apart.name])


def _round(cloud: Cloud, server: PostgreSQL, figures: _Figures) -> None:
    latencies = _one_by_one(cloud, _ONE_BY_ONE)
    figures.p50_ms.append(statistics.median(latencies))
    figures.latencies_ms += latencies
    cpu, database = cloud.cpu_s(), postgresql_cpu_s(server)
    figures.many.append(_throughput(cloud, _CLIENTS, _TOGETHER // _CLIENTS, 1))
    taken = {kind: seconds - cpu[kind] for kind, seconds in cloud.cpu_s().items()}
    taken["PostgreSQL"] = postgresql_cpu_s(server) - database
    for kind, seconds in taken.items():
        figures.cpu_ms.setdefault(kind, []).append(1000 * seconds / _TOGETHER)
    figures.hundreds.append(_throughput(cloud, _REQUESTS, 1, _AT_ONCE))
    print(
        f"    {cloud.name}: p50 {figures.p50_ms[-1]:.1f} ms, {figures.many[-1]:.0f} and {figures.hundreds[-1]:.0f} "
        "servers/s",
        flush=True,
    )


def _one_by_one(cloud: Cloud, count: int) -> list[float]:
    """Create servers one by one; return the time of each from request to ACTIVE. Units: milliseconds."""
    client = cloud.client()
    latencies = []
    for _ in range(count):
        started = time.perf_counter()
        client.wait_active(client.create("one"))
        latencies.append((time.perf_counter() - started) * 1000)
    return latencies


def _throughput(cloud: Cloud, clients: int, requests: int, at_once: int) -> float:
    """Create servers by several clients, ``at_once`` per request; return servers per second until all are ACTIVE."""

    def work() -> None:
        client = cloud.client()
        for _ in range(requests):
            client.create("many", at_once)

    threads = [threading.Thread(target=work) for _ in range(clients)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client = cloud.client()
    while client.call("GET", "/compute/v2.1/servers?status=BUILD&limit=1")["servers"]:
        time.sleep(_POLL_S)
    taken = time.perf_counter() - started
    if client.call("GET", "/compute/v2.1/servers?status=ERROR&limit=1")["servers"]:
        raise SystemExit(f"{cloud.name}: a server is in ERROR")
    return clients * requests * at_once / taken


def _tell(cloud: Cloud, figures: _Figures) -> None:
    median, p99_ms = statistics.median, statistics.quantiles(figures.latencies_ms, n=100)[-1]
    cpu = ", ".join(f"{kind} {median(each):.2f}" for kind, each in figures.cpu_ms.items())
    print(
        f"  {cloud.name}: POST -> ACTIVE p50 {median(figures.p50_ms):.1f} ms, p99 {p99_ms:.1f} ms | "
        f"{median(figures.many):.0f} servers/s with {_CLIENTS} clients | "
        f"{median(figures.hundreds):.0f} servers/s in {_REQUESTS} requests of {_AT_ONCE}\n"
        f"    CPU time per server with {_CLIENTS} clients, ms: {cpu}"
    )
    for kind, processes in cloud.memory_mib().items():
        rss, pss = (median([pair[which] for pair in processes]) for which in (0, 1))
        print(f"    memory of {kind}, each of {len(processes)}: RSS {rss:.0f} MiB, PSS {pss:.0f} MiB")


def _tell_ratios(inside: _Figures, apart: _Figures) -> None:
    def ratio(of: Callable[[_Figures], list[float]]) -> str:
        each = sorted(b / a for a, b in zip(of(inside), of(apart), strict=True))
        return f"{statistics.median(each):.2f} ({each[0]:.2f} to {each[-1]:.2f})"

    print(
        f"  over RabbitMQ / in process: p50 {ratio(lambda one: one.p50_ms)}, goal <= {GOAL_P50}; servers/s of many "
        f"clients {ratio(lambda one: one.many)}, in requests of {_AT_ONCE} {ratio(lambda one: one.hundreds)}, goal >= "
        f"{GOAL_RATE}",
        flush=True,
    )
