# SPDX-License-Identifier: Apache-2.0
"""``POST /servers`` to ACTIVE over HTTP on simulated hosts: latency of servers created one by one, and throughput.

Each number of hosts gets a new control process (noauth2, SQLite). The time of a durable commit on this disk is measured
in the same run as a floor, since a server needs three commits in sequence.

    python -m benchmarks.servers [HOSTS ...]
"""

import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from kilonova.bundled_services.free_ports import free_port

SIZES = (3, 1_000)
ONE_BY_ONE = 100
TOGETHER = 400
CLIENTS = 8
GOAL_P50_MS = 30.0
GOAL_PER_S = 200.0
_IMAGE = str(uuid.uuid5(uuid.NAMESPACE_URL, "kilonova:image:tiny"))


class Cloud:
    """A control process in its own folder on a free loopback port."""

    def __init__(self, folder: Path, hosts: int, vcpus: int = 64) -> None:
        self.port = free_port()
        scenario = folder / "scenario.yaml"
        shape = f"name: node, count: {hosts}, vcpus: {vcpus}, memory_mib: 524288, disk_gib: 20000"
        scenario.write_text(f"hosts: [{{{shape}}}]\nimages: [{{name: tiny}}]\n")
        config = folder / "kilonova.conf"
        config.write_text(
            f"[api]\nauth_strategy = noauth2\nbind = 127.0.0.1:{self.port}\n"
            f"[database]\nconnection = sqlite:///{folder}/kilonova.db\n"
            f"[fake]\nstate_dir = {folder}/hypervisors\nscenario = {scenario}\n"
            "[quota]\ninstances = -1\ncores = -1\nram = -1\n"
        )
        started = time.perf_counter()
        command = [sys.executable, "-m", "kilonova", "api", "--config-file", str(config)]
        with (folder / "kilonova.log").open("w") as log:
            self._process = subprocess.Popen(command, stderr=log)
        while True:
            try:
                self.client().call("GET", "/compute/v2.1")
                break
            except OSError:
                if self._process.poll() is not None:
                    raise SystemExit("the control process exited") from None
                time.sleep(0.02)
        self.ready_s = time.perf_counter() - started

    def client(self) -> "Client":
        return Client(self.port)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)


_HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "compute 2.100", "Content-Type": "application/json"}


class Client:
    """API client with one persistent connection."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=60)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        self._connection.request(method, path, None if body is None else json.dumps(body), _HEADERS)
        answer = self._connection.getresponse()
        raw = answer.read()
        if answer.status >= 400:
            raise SystemExit(f"{method} {path}: {answer.status} {raw.decode()}")
        return json.loads(raw) if raw else None

    def create(self, name: str, count: int = 1) -> str:
        server = {"name": name, "imageRef": _IMAGE, "flavorRef": "1", "networks": "auto", "min_count": count}
        return str(self.call("POST", "/compute/v2.1/servers", {"server": server})["server"]["id"])

    def create_many(self, count: int, **asked: str) -> None:
        """Create servers with one request and wait until all are ACTIVE."""
        server = {"name": "many", "imageRef": _IMAGE, "flavorRef": "1", "networks": "auto", "min_count": count, **asked}
        self.call("POST", "/compute/v2.1/servers", {"server": server})
        while self.call("GET", "/compute/v2.1/servers?status=BUILD&limit=1")["servers"]:
            time.sleep(0.002)
        for server_id in self.servers():
            self.wait_active(server_id)

    def servers(self) -> list[str]:
        return [server["id"] for server in self.call("GET", "/compute/v2.1/servers")["servers"]]

    def show(self, server_id: str) -> Any:
        return self.call("GET", f"/compute/v2.1/servers/{server_id}")["server"]

    def act(self, server_id: str, body: Any) -> None:
        self.call("POST", f"/compute/v2.1/servers/{server_id}/action", body)

    def delete_all(self, server_ids: list[str]) -> None:
        """Delete servers and wait until none is listed."""
        for server_id in server_ids:
            self.call("DELETE", f"/compute/v2.1/servers/{server_id}")
        while self.servers():
            time.sleep(0.002)

    def wait_active(self, server_id: str) -> None:
        self.wait_for(server_id, "ACTIVE")

    def wait_for(self, server_id: str, wanted: str) -> None:
        while (status := self.show(server_id)["status"]) != wanted:
            if status == "ERROR":
                raise SystemExit(f"server {server_id} is {status}")
            time.sleep(0.0005)


def commit_floor_ms(folder: Path) -> float:
    """Return the median time of a durable commit through the bare driver. Units: milliseconds."""
    connection = sqlite3.connect(folder / "floor.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE t (a)")
    times = []
    for number in range(50):
        started = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t VALUES (?)", (number,))
        connection.execute("COMMIT")
        times.append(time.perf_counter() - started)
    connection.close()
    return statistics.median(times) * 1000


def measure(hosts: int) -> None:
    with tempfile.TemporaryDirectory(prefix="kilonova-bench-") as name:
        folder = Path(name)
        floor = commit_floor_ms(folder)
        cloud = Cloud(folder, hosts)
        try:
            client = cloud.client()
            flavor = {"id": "1", "name": "m1.tiny", "ram": 512, "vcpus": 1, "disk": 1}
            client.call("POST", "/compute/v2.1/flavors", {"flavor": flavor})
            client.wait_active(client.create("warm-up"))
            latencies = []
            for number in range(ONE_BY_ONE if hosts >= 10 else min(ONE_BY_ONE, hosts * 40)):
                started = time.perf_counter()
                client.wait_active(client.create(f"one-{number}"))
                latencies.append((time.perf_counter() - started) * 1000)
            latencies.sort()
            together = min(TOGETHER, hosts * 64)
            rate = throughput(cloud, together)
        finally:
            cloud.stop()
    print(
        f"{hosts:>6} hosts: ready {cloud.ready_s:5.2f} s | POST -> ACTIVE p50 {statistics.median(latencies):6.1f} ms, "
        f"p95 {latencies[int(len(latencies) * 0.95)]:6.1f} ms (goal p50 <= {GOAL_P50_MS:g}) | "
        f"{rate:5.0f} servers/s with {CLIENTS} clients (goal >= {GOAL_PER_S:g}) | commit floor {floor:.2f} ms",
        flush=True,
    )


def throughput(cloud: Cloud, servers: int) -> float:
    """Create servers by several clients at once; return servers per second until all are ACTIVE."""
    ids: list[str] = []

    def work(share: int) -> None:
        client = cloud.client()
        ids.extend(client.create(f"many-{share}-{number}") for number in range(servers // CLIENTS))

    threads = [threading.Thread(target=work, args=(share,)) for share in range(CLIENTS)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client = cloud.client()
    for server_id in ids:
        client.wait_active(server_id)
    return len(ids) / (time.perf_counter() - started)


def main(arguments: list[str]) -> None:
    print(f"{os.cpu_count()} cores, shared by server and client")
    for hosts in [int(text) for text in arguments] or SIZES:
        measure(hosts)


if __name__ == "__main__":
    main(sys.argv[1:])
