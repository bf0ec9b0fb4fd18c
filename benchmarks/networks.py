# SPDX-License-Identifier: Apache-2.0
"""Builds of servers with a network and without one, in turn: time, CPU time and requests to Neutron.

The control process runs in the benchmark's own process, with simulated hosts, SQLite and a Neutron that answers at
once. Each pair is a request for servers without networks and one with one known network, in changing order. The ratio
is that of the medians, and for comparison that of the lower quartiles.

With ``--http`` this Neutron is a process of its own, and the control process asks it by HTTP.

    python -m benchmarks networks [-- PAIRS [--http]]
"""

import logging
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tests.support.api_client import Client
from tests.support.waiting import wait_until_idle

from benchmarks._stub_neutron import NETWORK, StubNeutron
from kilonova.bundled_services.free_ports import free_port
from kilonova.cli.wiring.control import ControlProcess, image_id, start_control_process
from kilonova.cli.wiring.core import Parts
from kilonova.config.load import load_settings
from kilonova.network.cached_client import CachedClient

PAIRS, TOGETHER, PAIRS_TOGETHER = 300, 100, 5
#: Servers that exist at once at most, in requests for one server.
_KEPT = 50
GOAL = 1.3
_SCENARIO = "images: [{name: cirros}]\nhosts: [{name: node, count: 20, vcpus: 64, memory_mib: 262144}]\n"
_LOG = "kilonova.conductor.workflow_engine.server_log"
_EXTENSIONS_S = _LONGEST_S = 600.0
_START_S = 5.0


class Cost(NamedTuple):
    """Seconds for one server: by the clock, and of the CPU."""

    time: float
    cpu: float


class Built(logging.Handler):
    """Counts the servers that were built, by their log lines, so that no request waits for them."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._left = 0
        self._done = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.args, tuple) and len(record.args) > 1 and record.args[1] == "spawned":
            self._left -= 1
            if self._left == 0:
                self._done.set()

    def expect(self, servers: int) -> None:
        self._left = servers
        self._done.clear()

    def wait(self) -> None:
        if not self._done.wait(_LONGEST_S):
            raise SystemExit(f"{self._left} servers were not built")


@contextmanager
def running(network: Any, conf: str = "") -> Iterator[ControlProcess]:
    """Run a control process. ``network``: its network client; None for the client that ``conf`` configures."""
    with TemporaryDirectory(prefix="kilonova-bench-") as name:
        folder = Path(name)
        (folder / "scenario.yaml").write_text(_SCENARIO)
        (folder / "kilonova.conf").write_text(
            f"[api]\nauth_strategy = noauth2\n[database]\nconnection = sqlite:///{folder}/kilonova.db\n"
            f"[fake]\nstate_dir = {folder}/hypervisors\nscenario = {folder}/scenario.yaml\n"
            f"[quota]\ninstances = -1\ncores = -1\nram = -1\n{conf}"
        )
        process = start_control_process(load_settings([str(folder / "kilonova.conf")]), Parts(network=network))
        try:
            yield process
        finally:
            process.close()


class Bench:
    """Requests to a control process, and the wait for their results."""

    def __init__(self, process: ControlProcess) -> None:
        self._process = process
        self._client = Client(process.application, version="2.100")
        self._built = Built()
        logger = logging.getLogger(_LOG)
        logger.addHandler(self._built)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        flavor = {"name": "m1.tiny", "id": "1", "ram": 512, "vcpus": 1, "disk": 1}
        self._client.post("/flavors", {"flavor": flavor})

    def build(self, networks: Any, servers: int = 1) -> Cost:
        """Send a request, and wait until its servers are active; return the cost of each."""
        asked = {"name": "one", "imageRef": image_id("cirros"), "flavorRef": "1", "networks": networks}
        body = {"server": asked if servers == 1 else {**asked, "min_count": servers}}
        began, used = time.perf_counter(), time.process_time()
        self._built.expect(servers)
        answer = self._client.post("/servers", body)
        if answer.status != 202:
            raise SystemExit(answer.raw.decode())
        self._built.wait()
        took, used = time.perf_counter() - began, time.process_time() - used
        return Cost(took / servers, used / servers)

    def delete_all(self) -> None:
        for server in self._client.get("/servers").body["servers"]:
            self._client.delete(f"/servers/{server['id']}")
        wait_until_idle(self._process.database)


def compare(bench: Bench, pairs: int, servers: int) -> tuple[list[Cost], list[Cost]]:
    """Return the costs of servers without networks and with one. The first pairs are not counted."""
    costs: dict[bool, list[Cost]] = {False: [], True: []}
    every = max(_KEPT // (2 * servers), 1)
    for number in range(pairs + every):
        for has_network in (False, True) if number % 2 else (True, False):
            costs[has_network].append(bench.build([{"uuid": NETWORK}] if has_network else "none", servers))
        if number % every == every - 1:
            bench.delete_all()
    bench.delete_all()
    return costs[False][every:], costs[True][every:]


def show(name: str, bare: Sequence[Cost], networked: Sequence[Cost]) -> None:
    print(f"{name}, {len(bare)} pairs:")
    for place, kind in enumerate(Cost._fields):
        low, middle = ([_quartile(costs, place, part) for costs in (bare, networked)] for part in (1, 2))
        print(
            f"  {kind:<5} without {middle[0]:6.2f} ms, with a network {middle[1]:6.2f} ms, ratio "
            f"{middle[1] / middle[0]:5.2f}, of the lower quartiles {low[1] / low[0]:5.2f} (goal <= {GOAL:g})",
            flush=True,
        )


def by_http(pairs: int) -> None:
    port = free_port()
    stub = subprocess.Popen([sys.executable, "-m", "benchmarks._stub_neutron", str(port)])
    try:
        time.sleep(_START_S)
        conf = f"[neutron]\nauth_type = none\nendpoint_override = http://127.0.0.1:{port}\n"
        with running(None, conf) as process:
            show("one server, POST to ACTIVE, by HTTP", *compare(Bench(process), pairs, 1))
    finally:
        stub.terminate()
        stub.wait()


def _quartile(costs: Sequence[Cost], place: int, part: int) -> float:
    """Return a quartile of the time or the CPU time. Units: milliseconds."""
    values = [cost[place] * 1e3 for cost in costs]
    return values[0] if len(values) == 1 else statistics.quantiles(values, n=4, method="inclusive")[part - 1]


def main(options: Sequence[str] = ()) -> None:
    pairs = int(options[0]) if options else PAIRS
    if "--http" in options:
        by_http(pairs)
        return
    stub = StubNeutron()
    with running(CachedClient(stub, extensions_s=_EXTENSIONS_S)) as process:
        bench = Bench(process)
        show("one server, POST to ACTIVE", *compare(bench, pairs, 1))
        show(f"{TOGETHER} servers of one request, per server", *compare(bench, min(pairs, PAIRS_TOGETHER), TOGETHER))
        stub.requests.clear()
        for _ in range(TOGETHER):
            bench.build([{"uuid": NETWORK}])
        counted = ", ".join(f"{name} {count / TOGETHER:.2f}" for name, count in sorted(stub.requests.items()))
        print(f"requests to Neutron for one server: {counted}")


if __name__ == "__main__":
    main(sys.argv[1:])
