# SPDX-License-Identifier: Apache-2.0
"""Number of processes and memory of a complete cloud: `kilonova up` with Keystone and Glance.

Measured when the cloud is ready, and again after a client has created and listed servers. PSS counts shared pages once;
RSS counts them for each process, as `ps` and `top` do.

    python -m benchmarks memory [-- HOSTS [SERVERS]]
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from tests.support.supervisor import Supervisor

HOSTS, SERVERS = 3, 200
#: Memory and processes of the smallest Nova with Keystone, Glance, Placement, a database and a broker.
NOVA_MIB, NOVA_PROCESSES = 1_946, 22
_TOGETHER = 50
_MIB = 2**20


@dataclass(frozen=True)
class Memory:
    """Memory of one process. Units: MiB."""

    name: str
    pss: float
    rss: float


def memory_of(pid: int) -> Memory:
    """Return the memory of a process, named by its command."""
    process = psutil.Process(pid)
    words, used = " ".join(process.cmdline()).split(), process.memory_full_info()
    names = [word.rpartition(".")[2] for word in words if word.startswith("kilonova.bundled_services")]
    kinds = {"api": "control", "console-proxy": "console-proxy"}
    name = next(iter((*names, *(kinds[word] for word in words if word in kinds))), "supervisor")
    return Memory(name, used.pss / _MIB, used.rss / _MIB)


def report(cloud: Supervisor, when: str) -> None:
    """Print the memory of every process of a cloud, and the totals."""
    found = [memory_of(pid) for pid in (cloud.process.pid, *cloud.descendants())]
    for each in sorted(found, key=lambda process: -process.pss):
        print(f"    {each.name:12} PSS {each.pss:6.1f} MiB, RSS {each.rss:6.1f} MiB")
    pss, rss = sum(each.pss for each in found), sum(each.rss for each in found)
    print(
        f"{when}: {len(found)} processes, PSS {pss:.0f} MiB, RSS {rss:.0f} MiB "
        f"(Nova: {NOVA_PROCESSES} processes, {NOVA_MIB:,} MiB, {NOVA_MIB / pss:.1f} times as much)",
        flush=True,
    )


def build(cloud: Supervisor, servers: int) -> None:
    """Create servers through the API, and list them until all are ACTIVE."""
    session = cloud.session()
    session.headers["OpenStack-API-Version"] = "compute 2.100"
    url = f"http://127.0.0.1:{cloud.ports[0]}/compute/v2.1"
    image = cloud.images()[0]["id"]
    for start in range(0, servers, _TOGETHER):
        wanted = min(_TOGETHER, servers - start)
        server: dict[str, Any] = {"name": "vm", "imageRef": image, "flavorRef": "1", "networks": "none"}
        body = {"server": {**server, "min_count": wanted}}
        session.post(
            f"{url}/servers", data=json.dumps(body), headers={"Content-Type": "application/json"}
        ).raise_for_status()
    while True:
        found = session.get(f"{url}/servers/detail").json()["servers"]
        statuses = {each["status"] for each in found}
        if len(found) == min(servers, 1_000) and statuses == {"ACTIVE"}:
            return
        if "ERROR" in statuses:
            raise SystemExit("a server is in ERROR")
        time.sleep(0.2)


def main(arguments: list[str]) -> None:
    hosts, servers = (int(arguments[at]) if len(arguments) > at else usual for at, usual in ((0, HOSTS), (1, SERVERS)))
    with TemporaryDirectory(prefix="kilonova-bench-") as folder:
        cloud = Supervisor(Path(folder) / "cloud", arguments=("--hosts", str(hosts))).start()
        try:
            cloud.until_ready()
            report(cloud, f"ready with {hosts} hosts")
            build(cloud, servers)
            report(cloud, f"with {servers} servers")
        finally:
            cloud.stop()


if __name__ == "__main__":
    main([])
