# SPDX-License-Identifier: Apache-2.0
"""Soak test: several control processes with many clients on one database, and a check of the final state.

python -m concurrency.soak [--operations N] [--database postgresql|mariadb ...]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Connection

from concurrency.writer import PROVIDERS, Allocations
from kilonova.db import allocations, flavors, inventories, providers, schema, workflows
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.model.flavor import Flavor
from kilonova.model.provider import Inventory
from support.control import UNLIMITED
from support.database_servers import MariaDB, PostgreSQL, running
from support.world import check_books

PROCESSES, CLIENTS = 4, 16
_TELL_EVERY_S = 30.0
_TESTS = Path(__file__).parent.parent


@dataclass(frozen=True)
class Report:
    """Counts, duration and latency of the clients' operations."""

    operations: Counter[str]
    elapsed_s: float
    p50_ms: float
    p99_ms: float

    def __str__(self) -> str:
        count = sum(self.operations.values())
        kinds = ", ".join(f"{number} {kind}" for kind, number in self.operations.most_common())
        rate = f"{count / self.elapsed_s:.0f}/s, request p50 {self.p50_ms:.1f} ms, p99 {self.p99_ms:.1f} ms"
        return f"{count} operations in {self.elapsed_s:.1f} s ({rate}): {kinds}"


def soak(url: str, folder: Path, operations: int, *, processes: int = PROCESSES, clients: int = CLIENTS) -> Report:
    """Run the clients on an upgraded database and check the final state. Raises: AssertionError."""
    database = Database(url)
    try:
        database.write(_fill)
        outcomes = _run(url, folder, operations, processes, clients)
        wrong = [line for outcome in outcomes for line in outcome["wrong"]]
        logs = [line for log in folder.glob("log-*") for line in log.read_text(errors="replace").splitlines()]
        wrong += [line for line in logs if "A kept decision differs" in line]
        assert not wrong, "\n".join(wrong[:20])
        with database.read() as connection:
            check_books(connection)
            assert workflows.oldest(connection) is None
            for outcome in outcomes:
                for consumer, expected in outcome["own"].items():
                    assert _allocations(connection, consumer) == expected, consumer
    finally:
        database.close()
    done: Counter[str] = sum((Counter(outcome["done"]) for outcome in outcomes), Counter())
    taken = sorted(seconds for outcome in outcomes for seconds in outcome["taken_s"])
    p50, p99 = (taken[int(len(taken) * part)] * 1e3 for part in (0.5, 0.99))
    return Report(done, max(outcome["elapsed_s"] for outcome in outcomes), p50, p99)


def _fill(tx: Transaction) -> None:
    """Create providers whose capacity is slightly below the demand, so that some requests find one full."""
    for number, uuid in enumerate(PROVIDERS):
        provider = providers.create(tx, uuid, f"provider-{number}")
        inventories.replace(tx, provider, [Inventory("VCPU", 90 + 8 * number), Inventory("MEMORY_MB", 14_336)])
    flavors.create(tx, Flavor("soak", "soak", vcpus=1, memory_mib=256, root_gib=1))


def _allocations(connection: Connection, consumer: str) -> Allocations:
    found = allocations.for_consumer(connection, consumer)
    return {} if found is None else {uuid: dict(resources) for uuid, resources in found.allocations.items()}


def _run(url: str, folder: Path, operations: int, processes: int, clients: int) -> list[dict[str, Any]]:
    writers, results = [], []
    for number in range(processes):
        results.append(folder / f"result-{number}.json")
        arguments = [_configuration(url, folder, number), f"seed-{number}", operations // processes, clients]
        command = [sys.executable, "-m", "concurrency.writer", *map(str, arguments), str(results[-1])]
        with (folder / f"log-{number}").open("wb") as log:
            writers.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    env={**os.environ, "PYTHONPATH": str(_TESTS)},
                )
            )
    try:
        for word in ("ready", "done", ""):
            for number, writer in enumerate(writers):
                assert writer.stdout is not None
                said = writer.stdout.readline().strip()
                assert said == word, (folder / f"log-{number}").read_text()[-5000:]
            for writer in writers:
                if word:
                    assert writer.stdin is not None
                    writer.stdin.write("\n")
                    writer.stdin.flush()
        for writer in writers:
            assert writer.wait(60) == 0
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
            for stream in (writer.stdin, writer.stdout):
                if stream is not None:
                    stream.close()
    return [json.loads(result.read_bytes()) for result in results]


def _configuration(url: str, folder: Path, number: int) -> Path:
    scenario = folder / f"scenario-{number}.yaml"
    host = f"{{name: cell{number}-node, count: 2, vcpus: 2, memory_mib: 4096, disk_gib: 100}}"
    scenario.write_text(f"hosts: [{host}]\nimages: [{{name: tiny}}]\n")
    file = folder / f"kilonova-{number}.conf"
    file.write_text(
        f"[api]\nauth_strategy = noauth2\n[database]\nconnection = {url}\n"
        f"[fake]\nstate_dir = {folder}/hypervisors-{number}\nscenario = {scenario}\n{UNLIMITED}"
        "[scheduler]\ncheck_kept_decisions = true\n"
    )
    return file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=200_000)
    parser.add_argument("--database", action="append", choices=["postgresql", "mariadb"])
    chosen = parser.parse_args()
    for backend in chosen.database or ["postgresql", "mariadb"]:
        server = {"postgresql": PostgreSQL, "mariadb": MariaDB}[backend](durable=True)
        with running(server), tempfile.TemporaryDirectory(prefix="kilonova-soak-") as folder:
            server.create("kilonova")
            database = Database(server.url("kilonova"))
            schema.upgrade(database)
            database.close()
            with _progress(backend, server.url("kilonova")):
                report = soak(server.url("kilonova"), Path(folder), chosen.operations)
            print(f"{backend}: {report}", flush=True)


@contextmanager
def _progress(backend: str, url: str) -> Iterator[None]:
    """Print the progress at intervals, as commits: several operations may share one, and some need none."""
    over = threading.Event()

    def tell() -> None:
        began = time.monotonic()
        database = Database(url)
        while not over.wait(_TELL_EVERY_S):
            print(f"{backend}: {database.newest_seq():,} commits after {time.monotonic() - began:.0f} s", flush=True)
        database.close()

    thread = threading.Thread(target=tell)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


if __name__ == "__main__":
    main()
