# SPDX-License-Identifier: Apache-2.0
"""Latency of the compute API while a job of the operator API computes in a process of its own.

The control process uses SQLite and has 200 hosts with 10,000 servers. One client lists 20 servers again and again, in
alternating rounds without a job and beside a job that computes the loss of any four hosts. Client, control process and
job share the machine's cores.

    python -m benchmarks beside_jobs [-- ROUNDS [SECONDS]]
"""

import json
import os
import statistics
import time
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.lists import fill
from benchmarks.servers import Cloud

SERVERS, PAGE = 10_000, 20
_ROUNDS, _SECONDS = 9, 5.0
_LONG_JOB = {"kind": "n-plus-one", "parameters": {"lose": 4}}


class Client:
    """Keeps one connection to the control process, as an administrator."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request and return the body of its answer. Raises: SystemExit for a refusal."""
        headers = {"X-Auth-Token": "admin", "Content-Type": "application/json"}
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self._connection.getresponse()
        raw = answer.read()
        if answer.status >= 300:
            raise SystemExit(raw.decode())
        return json.loads(raw) if raw else None


def latencies(client: Client, seconds: float) -> list[float]:
    """Return the latency of each list in milliseconds."""
    taken, until = [], time.monotonic() + seconds
    while (started := time.perf_counter()) and time.monotonic() < until:
        client.ask("GET", f"/compute/v2.1/servers/detail?all_tenants=1&limit={PAGE}")
        taken.append((time.perf_counter() - started) * 1e3)
    return taken


def start(client: Client) -> str:
    """Start a job, wait until a process computes it, and return its id."""
    uuid: str = client.ask("POST", "/operator/v1/jobs", _LONG_JOB)["job"]["id"]
    while (job := client.ask("GET", f"/operator/v1/jobs/{uuid}")["job"])["progress"] == 0:
        if job["state"] not in {"queued", "running"}:
            raise SystemExit(f"the job has ended: {job}")
        time.sleep(0.05)
    return uuid


def end(client: Client, uuid: str) -> None:
    """Cancel a job that still runs. Raises: SystemExit if it ended by itself, since a round was then incomplete."""
    if client.ask("GET", f"/operator/v1/jobs/{uuid}")["job"]["state"] != "running":
        raise SystemExit("the job has ended before the round: choose shorter rounds")
    client.ask("DELETE", f"/operator/v1/jobs/{uuid}")
    while client.ask("GET", f"/operator/v1/jobs/{uuid}")["job"]["state"] == "running":
        time.sleep(0.05)


def main(arguments: list[str]) -> None:
    rounds = int(arguments[0]) if arguments else _ROUNDS
    seconds = float(arguments[1]) if len(arguments) > 1 else _SECONDS
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with TemporaryDirectory(prefix="kilonova-bench-") as name:
        folder = Path(name)
        fill(f"sqlite:///{folder}/kilonova.db", SERVERS)
        cloud = Cloud(folder, hosts=1)
        try:
            client = Client(cloud.port)
            latencies(client, 2.0)
            alone, beside = [], []
            for _ in range(rounds):
                alone.append(latencies(client, seconds))
                job = start(client)
                beside.append(latencies(client, seconds))
                end(client, job)
        finally:
            cloud.stop()
    for what, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        ones, others = ([sorted(each)[int(len(each) * share)] for each in all_] for all_ in (alone, beside))
        ratios = [other / one for one, other in zip(ones, others, strict=True)]
        print(
            f"{what}: {statistics.median(ones):.2f} ms alone, {statistics.median(others):.2f} ms beside a job, "
            f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} - {max(ratios):.2f}; goal <= 1.1)",
            flush=True,
        )
