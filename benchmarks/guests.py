# SPDX-License-Identifier: Apache-2.0
"""Tiny guests that really run, built through the API, beside as many that a script starts with QEMU by hand.

Both are timed until each guest has written its line to the serial port. The script makes an overlay of the image for
each guest and starts the same emulator with the same devices, ten at a time as a host does (`max_concurrent_builds`).
The cloud is `kilonova up --hypervisor libvirt`, with the host in an agent process of its own, whose memory is shown.

    python -m benchmarks guests [-- GUESTS [ROUNDS]]

Needs what `tools/hypervisor.sh` installs.
"""

import json
import statistics
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from tests.support.supervisor import Supervisor

from kilonova.cli.tiny_image import tiny_image

GUESTS, ROUNDS = 40, 3
MEMORY_MIB = 32
GOAL, GOAL_MIB = 1.5, 120.0
_AT_ONCE = 10
_UP = b"boot 1"
_MIB = 2**20


def wait_until_up(logs: Callable[[], list[Path]], guests: int) -> None:
    """Wait until so many guests have said that they are up."""
    while sum(_UP in _read(log) for log in logs()) < guests:
        time.sleep(0.02)


def _read(log: Path) -> bytes:
    with suppress(FileNotFoundError):
        return log.read_bytes()
    return b""


# --- by hand ----------------------------------------------------------------------------------------------------------


def by_hand(folder: Path, guests: int) -> float:
    """Return how long a script takes until all guests are up."""
    folder.mkdir()
    base = folder / "base.raw"
    base.write_bytes(tiny_image())
    processes: list[subprocess.Popen[bytes]] = []
    began = time.perf_counter()
    try:
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            processes += threads.map(lambda number: _start(folder, base, number), range(guests))
        wait_until_up(lambda: list(folder.glob("*.log")), guests)
        return time.perf_counter() - began
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def _start(folder: Path, base: Path, number: int) -> "subprocess.Popen[bytes]":
    disk = folder / f"{number}.qcow2"
    make = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(base), str(disk), "1G"]
    subprocess.run(make, check=True)
    words = ["qemu-system-x86_64", "-accel", "tcg,tb-size=32", "-m", str(MEMORY_MIB), "-nodefaults", "-no-user-config"]
    words += ["-machine", "pc", "-display", "none", "-vnc", "none", "-device", "VGA"]
    words += ["-blockdev", f"driver=qcow2,node-name=disk,file.driver=file,file.filename={disk}"]
    words += ["-device", "virtio-blk-pci,drive=disk,bootindex=1", "-device", "virtio-balloon-pci"]
    words += ["-chardev", f"file,id=serial,path={folder}/{number}.log", "-device", "isa-serial,chardev=serial"]
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


# --- by the cloud -----------------------------------------------------------------------------------------------------


class RealCloud:
    """A cloud with one host of real guests."""

    def __init__(self, folder: Path) -> None:
        settings = folder / "more.conf"
        settings.write_text(
            "[DEFAULT]\nreserved_host_memory_mb = 0\nram_allocation_ratio = 4.0\ncpu_allocation_ratio = 200.0\n"
        )
        options = ("--hypervisor", "libvirt", "--agents", "1", "--config-file", str(settings))
        options += ("--guests-on-stop", "stop")
        self._supervisor = Supervisor(folder / "cloud", arguments=options).start()
        self._supervisor.until_ready()
        self._session = self._supervisor.session()
        self._session.headers["OpenStack-API-Version"] = "compute 2.100"
        self._url = f"http://127.0.0.1:{self._supervisor.ports[0]}/compute/v2.1"
        self._image = self._supervisor.images()[0]["id"]
        flavor = {"id": "nano", "name": "nano", "ram": MEMORY_MIB, "vcpus": 1, "disk": 1}
        self._post("/flavors", {"flavor": flavor})

    def _post(self, path: str, body: Any) -> None:
        headers = {"Content-Type": "application/json"}
        self._session.post(self._url + path, data=json.dumps(body), headers=headers).raise_for_status()

    def _servers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._session.get(f"{self._url}/servers/detail").json()["servers"]
        return found

    def build(self, guests: int) -> tuple[float, float]:
        """Return how long it takes until all guests are up, and until all servers are ACTIVE."""
        instances = self._supervisor.folder / "instances"
        server = {"name": "vm", "imageRef": self._image, "flavorRef": "nano", "networks": "none", "min_count": guests}
        began = time.perf_counter()
        self._post("/servers", {"server": server})
        wait_until_up(lambda: list(instances.glob("*/console.log")), guests)
        up = time.perf_counter() - began
        while {each["status"] for each in self._servers()} != {"ACTIVE"}:
            time.sleep(0.05)
        return up, time.perf_counter() - began

    def delete_all(self) -> float:
        began = time.perf_counter()
        for server in self._servers():
            self._session.delete(f"{self._url}/servers/{server['id']}").raise_for_status()
        while self._servers():
            time.sleep(0.05)
        return time.perf_counter() - began

    def memory_of_agent(self) -> tuple[float, float]:
        """Return RSS and PSS of the agent process, in MiB."""
        for pid in self._supervisor.descendants():
            process = psutil.Process(pid)
            if {"compute", "kilonova"} <= set(process.cmdline()):
                used = process.memory_full_info()
                return used.rss / _MIB, used.pss / _MIB
        raise SystemExit("there is no agent process")

    def stop(self) -> None:
        self._supervisor.stop()


def main(arguments: list[str]) -> None:
    guests, rounds = (int(arguments[at]) if len(arguments) > at else usual for at, usual in ((0, GUESTS), (1, ROUNDS)))
    ratios: list[float] = []
    with TemporaryDirectory(prefix="kilonova-bench-") as folder:
        cloud = RealCloud(Path(folder))
        try:
            cloud.build(1)
            cloud.delete_all()
            for number in range(rounds):
                script = by_hand(Path(folder) / f"hand{number}", guests)
                up, active = cloud.build(guests)
                rss, pss = cloud.memory_of_agent()
                deleted = cloud.delete_all()
                ratios.append(up / script)
                print(
                    f"{guests} guests: by hand up after {script:.1f} s, by the cloud after {up:.1f} s "
                    f"({up / script:.2f} x), all ACTIVE after {active:.1f} s, all deleted after {deleted:.1f} s; "
                    f"agent RSS {rss:.0f} MiB, PSS {pss:.0f} MiB",
                    flush=True,
                )
        finally:
            cloud.stop()
    print(f"median {statistics.median(ratios):.2f} x; goal {GOAL} x, and {GOAL_MIB:.0f} MiB for the agent")


if __name__ == "__main__":
    main([])
