# SPDX-License-Identifier: Apache-2.0
"""Every write of the Placement API over HTTP, with 1 and with 8 clients, and the two reads that must be cheap.

Kilonova's Placement runs on SQLite and on PostgreSQL with durable commits; with ``--peer`` also OpenStack's own on
PostgreSQL, all with the same hosts. A round sends the same number of requests to each target, in alternating order; a
line shows the median of the rounds. *cpu* is the server's CPU time per request, without its database.

    python -m benchmarks placement_writes [-- [--hosts N] [--rounds N] [--requests N] [--databases sqlite] [--peer]
        [--clients [1] [8]] [--skip-reads] [--only NAME]]

``--peer`` needs ``tools/peer.sh placement``. The floors, measured in the same run, are a commit of one row in each
database, and 1 MB of JSON encoded by orjson and sent by a minimal process.
"""

import argparse
import multiprocessing
import os
import selectors
import socket
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import psycopg
from tests.support.database_servers import DatabaseServer, PostgreSQL, running

from benchmarks._placement_data import flat_hosts
from benchmarks._placement_requests import WRITES, Call, Cloud, Write
from benchmarks._placement_servers import PEER_VENV, Connection, Target, ours, peer
from benchmarks.placement import REPEATS, path_of_candidates
from kilonova.bundled_services.free_ports import free_port

#: Database of Kilonova → number of clients → goal: how many times faster than the peer every write is.
GOALS = {"sqlite": {1: 5.0, 8: 10.0}, "postgresql": {1: 3.0, 8: 5.0}}
READ_GOAL = 2.0
PAIRS, _WARM_UP = 1_500, 50


def send_all(target: Target, connections: Sequence[Connection], calls: Iterable[Call]) -> float:
    """Send all calls over the connections until every call has succeeded; return the seconds it took.

    A call that OpenStack's Placement answers with 409 is retried, as that service's own clients do.
    """
    waiting = iter([(target.request(*call), call) for call in calls])
    chosen = selectors.DefaultSelector()
    asked: dict[int, Call] = {}

    def ask(number: int) -> bool:
        request, call = next(waiting, (b"", None))
        if call is None:
            return False
        asked[number] = call
        connections[number].send(request)
        return True

    started = time.perf_counter()
    busy = 0
    for number, connection in enumerate(connections):
        if ask(number):
            chosen.register(connection.socket, selectors.EVENT_READ, number)
            busy += 1
    while busy:
        for key, _ in chosen.select():
            status, body = connections[key.data].receive()
            if status == 409 and target.is_peer:  # OpenStack's Placement reports conflicts of unrelated writes
                connections[key.data].send(target.request(*asked[key.data]))
                continue
            if not 200 <= status < 300:
                method, path, _ = asked[key.data]
                raise SystemExit(f"{target.name}: {method} {path}: unexpected status {status}: {body[:500]!r}")
            if not ask(key.data):
                chosen.unregister(connections[key.data].socket)
                busy -= 1
    taken = time.perf_counter() - started
    chosen.close()
    return taken


@dataclass(slots=True)
class Taken:
    """Results of one write: seconds per request of each round; total CPU time of the server and number of requests."""

    rounds: list[float] = field(default_factory=list)
    cpu_s: float = 0.0
    requests: int = 0

    def add(self, seconds: float, cpu_s: float, requests: int) -> None:
        self.rounds.append(seconds / requests)
        self.cpu_s += cpu_s
        self.requests += requests

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def cpu(self) -> float:
        return self.cpu_s / self.requests


def measure_writes(targets: Sequence[Target], hosts: int, rounds: int, requests: int, only: str, clients: int) -> None:
    uuids = [host.uuid for host in flat_hosts(hosts)]
    taken = {(write.name, target.name): Taken() for write in WRITES for target in targets}
    clouds = [Cloud(target, target.connect(), list(uuids)) for target in targets]
    for number in range(-1, rounds):  # round -1 is for warm-up and not measured
        for cloud in clouds if number % 2 else clouds[::-1]:
            connections = [cloud.target.connect() for _ in range(clients)]
            for write in WRITES:
                seconds, worked, count = _measure(cloud, connections, write, requests)
                if number >= 0:
                    taken[write.name, cloud.target.name].add(seconds, worked, count)
            for connection in connections:
                connection.close()
    for cloud in clouds:
        cloud.control.close()
    print(f"\n {clients} client{'s' if clients > 1 else ''}, milliseconds per request (CPU time of the server)")
    print("  " + " " * 24 + "".join(f"{target.name:>30}" for target in targets))
    worst: dict[str, tuple[float, str]] = {}
    for write in WRITES:
        if only not in write.name:
            continue
        cells = []
        for target in targets:
            mine = taken[write.name, target.name]
            ratio = ""
            if targets[-1].is_peer and not target.is_peer:
                times = taken[write.name, targets[-1].name].median / mine.median
                ratio = f"{times:6.1f} x"
                worst[target.name] = min(worst.get(target.name, (times, write.name)), (times, write.name))
            cells.append(f"{mine.median * 1e3:9.2f} ({mine.cpu * 1e3:6.2f}){ratio:>10}")
        print(f"  {write.name:<24}" + "".join(f"{cell:>30}" for cell in cells), flush=True)
    for name, (times, write_name) in worst.items():
        goal = GOALS[name.rpartition(" ")[2]][clients]
        print(f"  {name}: {times:.1f} x at least ({write_name}); goal {goal:g} x")


def _measure(cloud: Cloud, connections: Sequence[Connection], write: Write, requests: int) -> tuple[float, float, int]:
    """Run one round; return its seconds, the server's CPU seconds, and the number of requests."""
    calls = write.calls(cloud, requests)
    worked = cloud.target.cpu_s()
    seconds = send_all(cloud.target, connections, calls)
    return seconds, cloud.target.cpu_s() - worked, len(calls)


def measure_reads(targets: Sequence[Target], hosts: int) -> None:
    """Measure the cheapest document and the candidates alternately, so both see the same load of the machine."""
    print(f"\n reads, {hosts:,} hosts, in turn (goal: at most {READ_GOAL:g} x)")
    mine = [target for target in targets if not target.is_peer]
    many = path_of_candidates("&limit=1000")
    taken = [
        [*_asked_in_turn(target, PAIRS, "/", path_of_candidates("&limit=1")), *_asked_in_turn(target, REPEATS, many)]
        for target in mine
    ]
    connection = mine[0].connect()
    document = connection.ask(mine[0].request("GET", many))[1]
    connection.close()
    floor = floor_of_sending(document)
    print(f"  floor: {len(document):,} bytes encoded by orjson and sent: {floor * 1e3:.2f} ms")
    for target, (root, first, thousand) in zip(mine, taken, strict=True):
        ratio = statistics.median(one / cheap for one, cheap in zip(first, root, strict=True))
        medians = [statistics.median(times) * 1e3 for times in (root, first, thousand)]
        print(
            f"  {target.name:<22} GET / {medians[0]:6.3f} ms   limit=1 {medians[1]:6.3f} ms"
            f" ({medians[1] / medians[0]:4.2f} x; median of the pairs' ratios {ratio:4.2f} x)"
            f"   limit=1000 {medians[2]:6.2f} ms ({medians[2] / floor / 1e3:4.1f} x the floor)"
        )


def _asked_in_turn(target: Target, times_each: int, *paths: str) -> list[list[float]]:
    """Request the paths in turn, repeatedly; return the latencies of each path. Units: seconds."""
    connection = target.connect()
    requests = [target.request("GET", path) for path in paths]
    taken: list[list[float]] = [[] for _ in paths]
    for number in range(-_WARM_UP, times_each):
        for request, times in zip(requests, taken, strict=True):
            seconds, _ = connection.ask(request)
            if number >= 0:
                times.append(seconds)
    connection.close()
    return taken


def floor_of_sending(document: bytes) -> float:
    """Return the median time to encode a JSON document and receive it over a connection. Units: seconds."""
    port = free_port()
    listening = socket.create_server(("127.0.0.1", port))
    process = multiprocessing.get_context("fork").Process(target=_send_forever, args=(listening, document), daemon=True)
    process.start()
    listening.close()
    connection = Target("floor", port).connect()
    taken = [connection.ask(b"GET / HTTP/1.1\r\n\r\n")[0] for _ in range(200)]
    connection.close()
    process.join(10)
    return statistics.median(taken)


def _send_forever(listening: socket.socket, document: bytes) -> None:
    value = orjson.loads(document)
    accepted, _ = listening.accept()
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while accepted.recv(1 << 16):
        body = orjson.dumps(value)
        accepted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


def floors_of_commits(folder: Path, postgresql: DatabaseServer | None) -> None:
    """Print the time of a durable commit of one row through the bare database drivers."""
    file = sqlite3.connect(folder / "floor.db", isolation_level=None)
    for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE one (number INTEGER)"):
        file.execute(statement)
    found = [f"sqlite {_median_of(lambda: file.execute('INSERT INTO one VALUES (1)')) * 1e3:.2f} ms"]
    file.close()
    if postgresql is not None:
        postgresql.create("floor")
        with psycopg.connect(postgresql.url("floor").replace("+psycopg", ""), autocommit=True) as server:
            server.execute("CREATE TABLE one (number INTEGER)")
            found.append(f"postgresql {_median_of(lambda: server.execute('INSERT INTO one VALUES (1)')) * 1e3:.2f} ms")
            found.append(f"a round trip {_median_of(lambda: server.execute('SELECT 1')) * 1e3:.3f} ms")
    print(f" floor: a commit of one row: {', '.join(found)}")


def _median_of(action: Callable[[], object]) -> float:
    taken = []
    for _ in range(300):
        started = time.perf_counter()
        action()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks placement_writes --", description=__doc__)
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", type=int, default=64, help="number of requests of each kind per round")
    parser.add_argument("--databases", default="sqlite,postgresql")
    parser.add_argument("--only", default="", help="show only the writes whose names contain this text")
    parser.add_argument("--clients", type=int, nargs="*", choices=(1, 8), default=(1, 8), help="concurrent clients")
    parser.add_argument("--skip-reads", action="store_true")
    parser.add_argument("--peer", action="store_true", help="also measure OpenStack's Placement")
    options = parser.parse_args(arguments)
    if options.peer and not PEER_VENV.exists():
        raise SystemExit("OpenStack's Placement is not installed: run tools/peer.sh placement")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; shared by servers, client and database")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kilonova-bench-")))
        postgresql: DatabaseServer | None = None
        if options.peer or "postgresql" in options.databases:
            postgresql = PostgreSQL(durable=True)
            stack.enter_context(running(postgresql))
        floors_of_commits(folder, postgresql)
        hosts = flat_hosts(options.hosts)
        targets = [
            stack.enter_context(
                ours(f"kilonova, {name}", folder / name, None if name == "sqlite" else postgresql, hosts)
            )
            for name in options.databases.split(",")
        ]
        if options.peer:
            assert postgresql is not None
            targets.append(stack.enter_context(peer(folder / "peer", postgresql, hosts)))
        if not options.skip_reads:
            measure_reads(targets, options.hosts)
        for clients in options.clients:
            measure_writes(targets, options.hosts, options.rounds, options.requests, options.only, clients)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
