# SPDX-License-Identifier: Apache-2.0
"""Time of server operations over HTTP on simulated hosts, which take no time, compared with Nova's.

Nova's figures were measured with Nova's services and fake driver on an idle machine of this kind; rows without such a
figure were not measured with Nova. Each row is the median of several repetitions on one cloud (noauth2, SQLite).

    python -m benchmarks.lifecycle
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.servers import Client, Cloud

HOSTS = 50
MANY = 100
REPEATS = 5
_EACH_MS = 0.0005
_FLAVORS = (
    {"id": "1", "name": "m1.tiny", "ram": 512, "vcpus": 1, "disk": 1},
    {"id": "2", "name": "m1.small", "ram": 1024, "vcpus": 2, "disk": 2},
)
#: Row → Nova's time, in seconds.
_NOVA = {"build 1": 0.7, f"build {MANY} on one host": 95.0, f"build {MANY}": 39.0, f"delete {MANY}": 55.0}


def main(arguments: list[str]) -> None:
    repeats = int(arguments[0]) if arguments else REPEATS
    rows: dict[str, list[float]] = {}
    for hosts in (1, HOSTS):
        with tempfile.TemporaryDirectory(prefix="kilonova-bench-") as folder:
            cloud = Cloud(Path(folder), hosts, vcpus=2 * MANY)
            try:
                client = cloud.client()
                for flavor in _FLAVORS:
                    client.call("POST", "/compute/v2.1/flavors", {"flavor": flavor})
                client.delete_all([client.create("warm-up")])
                for _ in range(repeats):
                    for name, seconds in (_alone(client) if hosts == 1 else _among_many(client)).items():
                        rows.setdefault(name, []).append(seconds)
            finally:
                cloud.stop()
    print(f"{'':<24}{'median':>10}{'Nova':>10}{'ratio':>10}")
    for name, seconds in rows.items():
        median, nova = statistics.median(seconds), _NOVA.get(name)
        beside = f"{nova:>8.1f} s{nova / median:>8.0f} x" if nova else ""
        print(f"{name:<24}{median * 1e3:>7.0f} ms{beside}", flush=True)


def _alone(client: Client) -> dict[str, float]:
    """Measure the rows of a cloud with one host."""
    built = _timed(lambda: client.create_many(MANY))
    client.delete_all(client.servers())
    return {f"build {MANY} on one host": built}


def _among_many(client: Client) -> dict[str, float]:
    took = {"build 1": _timed(lambda: client.wait_active(client.create("one")))}
    (one,) = client.servers()
    took["resize and confirm"] = _timed(lambda: _resize(client, one))
    took["live migration"] = _timed(lambda: _live_migrate(client, one))
    client.delete_all([one])
    took[f"build {MANY}"] = _timed(lambda: client.create_many(MANY))
    ids = client.servers()
    took[f"delete {MANY}"] = _timed(lambda: client.delete_all(ids))
    took[f"evacuate a host of {MANY}"] = _evacuate(client)
    client.delete_all(client.servers())
    return took


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _resize(client: Client, server: str) -> None:
    client.act(server, {"resize": {"flavorRef": "2"}})
    client.wait_for(server, "VERIFY_RESIZE")
    client.act(server, {"confirmResize": None})
    client.wait_for(server, "ACTIVE")


def _live_migrate(client: Client, server: str) -> None:
    client.act(server, {"os-migrateLive": {"host": None, "block_migration": "auto"}})
    while client.show(server)["OS-EXT-STS:task_state"] is not None:
        time.sleep(_EACH_MS)
    client.wait_for(server, "ACTIVE")


def _evacuate(client: Client) -> float:
    """Force a host down and evacuate its servers; return the seconds until all run on other hosts."""
    client.create_many(MANY, host="node1")
    ids = client.servers()
    host = client.show(ids[0])["OS-EXT-SRV-ATTR:host"]
    (service,) = [s for s in client.call("GET", "/compute/v2.1/os-services")["services"] if s["host"] == host]
    path = f"/compute/v2.1/os-services/{service['id']}"
    client.call("PUT", path, {"forced_down": True})

    def evacuate() -> None:
        for server in ids:
            client.act(server, {"evacuate": {}})
        for server in ids:
            while client.show(server)["OS-EXT-SRV-ATTR:host"] == host:
                time.sleep(_EACH_MS)
            while client.show(server)["OS-EXT-STS:task_state"] is not None:
                time.sleep(_EACH_MS)

    took = _timed(evacuate)
    client.call("PUT", path, {"forced_down": False})
    return took


if __name__ == "__main__":
    main(sys.argv[1:])
