# SPDX-License-Identifier: Apache-2.0
"""Build time of small real guests: through the API, and by scripts that use QEMU and libvirt directly.

Three methods create the same guests, ten at a time (the default of `max_concurrent_builds`), each with an overlay of
the image. Each method is timed until every guest has written its line to the serial port:

- a script that starts QEMU with the devices that libvirt configures for such a guest;
- a script that makes the cloud's libvirtd define and start the XML of one of the cloud's guests;
- the cloud: `kilonova up --hypervisor libvirt` with one agent process, whose memory is shown.

CPU time is that of all guests until they are up; for the cloud also that of libvirtd, the agent and all other processes
with their children.

    python -m benchmarks guests [-- GUESTS [ROUNDS]]

Needs what `tools/hypervisor.sh` installs.
"""

import json
import re
import statistics
import subprocess
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import libvirt
import psutil
from tests.support.supervisor import Supervisor

from kilonova.bundled_services.libvirtd import Libvirtd
from kilonova.cli.up.tiny_image import tiny_image

GUESTS, ROUNDS = 40, 3
MEMORY_MIB = 32
GOAL, GOAL_MIB = 1.5, 120.0
_AT_ONCE = 10
_UP = b"boot 1"
_MIB = 2**20
_EMULATOR = "qemu-system-x86_64"


@dataclass(frozen=True, slots=True)
class Spent:
    """Time of one method. ``up_s``: until all guests were up; ``emulators_s``: CPU time of the guests until then."""

    up_s: float
    emulators_s: float


def wait_until_up(logs: Callable[[], list[Path]], guests: int) -> None:
    """Wait until ``guests`` console logs contain the guest's boot line."""
    while sum(_UP in _read(log) for log in logs()) < guests:
        time.sleep(0.02)


def _read(log: Path) -> bytes:
    with suppress(FileNotFoundError):
        return log.read_bytes()
    return b""


def processor_s(processes: Iterable[psutil.Process]) -> float:
    """Return the CPU time of processes and their ended children. Units: seconds."""
    total = 0.0
    for process in processes:
        with suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def emulators_in(folder: Path) -> list[psutil.Process]:
    """Return the QEMU processes whose files are in a folder."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            if words and _EMULATOR in words[0] and any(str(folder) in word for word in words):
                found.append(process)
    return found


def make_overlay(base: Path, disk: Path) -> None:
    command = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(base), str(disk), "1G"]
    subprocess.run(command, check=True)


def of_all(work: Callable[[int], Any], guests: int) -> list[Any]:
    """Call ``work`` with each guest number, ten at a time; return the results."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(work, range(guests)))


def prepared(folder: Path) -> Path:
    """Create a folder with the base image; return the path of the image."""
    folder.mkdir()
    base = folder / "base.raw"
    base.write_bytes(tiny_image())
    return base


# --- script with QEMU -------------------------------------------------------------------------------------------------


def by_qemu(folder: Path, guests: int, cpu: str) -> Spent:
    """Start QEMU for each guest. ``cpu``: value of QEMU's -cpu option as libvirt sets it."""
    base = prepared(folder)
    processes: list[subprocess.Popen[bytes]] = []
    began = time.perf_counter()
    try:
        processes += of_all(lambda number: _start(folder, base, number, cpu), guests)
        wait_until_up(lambda: list(folder.glob("*.log")), guests)
        up = time.perf_counter() - began
        return Spent(up, processor_s(psutil.Process(each.pid) for each in processes))
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def _start(folder: Path, base: Path, number: int, cpu: str) -> "subprocess.Popen[bytes]":
    disk = folder / f"{number}.qcow2"
    make_overlay(base, disk)
    words = [
        _EMULATOR,
        "-accel",
        "tcg,tb-size=32",
        "-cpu",
        cpu,
        "-m",
        str(MEMORY_MIB),
        "-nodefaults",
        "-no-user-config",
    ]
    words += ["-machine", "pc,usb=off", "-display", "none", "-vnc", f"unix:{folder}/{number}.vnc", "-boot", "strict=on"]
    words += ["-device", "piix3-usb-uhci,id=usb", "-device", "usb-tablet,bus=usb.0", "-device", "virtio-vga"]
    words += ["-blockdev", f"driver=qcow2,node-name=disk,file.driver=file,file.filename={disk}"]
    words += ["-device", "virtio-blk-pci,drive=disk,bootindex=1", "-device", "virtio-balloon-pci"]
    words += ["-object", "rng-random,id=random,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=random"]
    words += ["-chardev", f"pty,id=serial,logfile={folder}/{number}.log", "-device", "isa-serial,chardev=serial"]
    words += ["-device", "vmcoreinfo", "-sandbox", "on"]
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


# --- script with libvirt ----------------------------------------------------------------------------------------------


def by_libvirt(folder: Path, guests: int, made: "MadeGuest", uri: str) -> Spent:
    """Make libvirt define and start each guest with the XML of one of the cloud's guests."""
    base = prepared(folder)
    connection = libvirt.open(uri)
    domains: list[Any] = []
    began = time.perf_counter()
    try:
        domains += of_all(lambda number: _defined(connection, folder / str(number), base, made), guests)
        wait_until_up(lambda: list(folder.glob("*/console.log")), guests)
        up = time.perf_counter() - began
        return Spent(up, processor_s(emulators_in(folder)))
    finally:
        of_all(lambda number: _remove(domains[number]), len(domains))
        connection.close()


def _defined(connection: Any, folder: Path, base: Path, made: "MadeGuest") -> Any:
    folder.mkdir()
    make_overlay(base, folder / "disk")
    # The agent ignores a guest without Kilonova's metadata.
    xml = re.sub("<metadata>.*</metadata>", "", made.xml, flags=re.DOTALL)
    xml = re.sub("<name>.*</name>", f"<name>script-{folder.name}</name>", xml)
    domain = connection.defineXML(
        xml.replace(str(made.folder), str(folder)).replace(made.folder.name, str(uuid.uuid4()))
    )
    domain.create()
    return domain


def _remove(domain: Any) -> None:
    domain.destroy()
    domain.undefine()


# --- the cloud --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MadeGuest:
    """A guest of the cloud. ``xml``: its libvirt domain XML; ``cpu``: its -cpu option of QEMU."""

    folder: Path
    xml: str
    cpu: str


@dataclass(frozen=True, slots=True)
class Built(Spent):
    """Times of the cloud. ``active_s``: until all servers were ACTIVE; all other fields: CPU time until then."""

    active_s: float
    agent_s: float
    libvirtd_s: float
    others_s: float


class RealCloud:
    """A cloud with one libvirt host."""

    def __init__(self, folder: Path) -> None:
        settings = folder / "more.conf"
        settings.write_text(
            "[DEFAULT]\nreserved_host_memory_mb = 0\nram_allocation_ratio = 4.0\ncpu_allocation_ratio = 200.0\n"
            "[libvirt]\nvirt_type = qemu\n"
        )
        options: tuple[str, ...] = ("--hypervisor", "libvirt", "--agents", "1", "--config-file", str(settings))
        options += ("--guests-on-stop", "stop")
        self._supervisor = Supervisor(folder / "cloud", arguments=options).start()
        self._supervisor.until_ready()
        self._instances = self._supervisor.folder / "instances"
        self.libvirt_uri = Libvirtd(self._supervisor.folder / "libvirt").uri
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

    def build(self, guests: int) -> Built:
        """Create ``guests`` servers with one request and wait until all are ACTIVE."""
        server = {"name": "vm", "imageRef": self._image, "flavorRef": "nano", "networks": "none", "min_count": guests}
        before = self._spent()
        began = time.perf_counter()
        self._post("/servers", {"server": server})
        wait_until_up(lambda: list(self._instances.glob("*/console.log")), guests)
        up = time.perf_counter() - began
        emulators = processor_s(emulators_in(self._instances))
        while {each["status"] for each in self._servers()} != {"ACTIVE"}:
            time.sleep(0.05)
        active, after = time.perf_counter() - began, self._spent()
        agent, libvirtd, others = (after[who] - before[who] for who in ("agent", "libvirtd", "others"))
        return Built(up, emulators, active, agent, libvirtd, others)

    def made_guest(self) -> MadeGuest:
        """Return XML and CPU option of the cloud's only guest."""
        (folder,) = (file.parent for file in self._instances.glob("*/domain.xml"))
        words = emulators_in(folder)[0].cmdline()
        return MadeGuest(folder, (folder / "domain.xml").read_text(), words[words.index("-cpu") + 1])

    def delete_all(self) -> float:
        began = time.perf_counter()
        for server in self._servers():
            self._session.delete(f"{self._url}/servers/{server['id']}").raise_for_status()
        while self._servers():
            time.sleep(0.05)
        return time.perf_counter() - began

    def memory_of_agent(self) -> tuple[float, float]:
        """Return RSS and PSS of the agent process, in MiB."""
        used = self._processes()["agent"][0].memory_full_info()
        return used.rss / _MIB, used.pss / _MIB

    def _spent(self) -> dict[str, float]:
        return {who: processor_s(processes) for who, processes in self._processes().items()}

    def _processes(self) -> dict[str, list[psutil.Process]]:
        """Return the cloud's processes without the guests, by kind."""
        found: dict[str, list[psutil.Process]] = {"agent": [], "libvirtd": [], "others": []}
        for pid in self._supervisor.descendants():
            with suppress(psutil.Error):
                process = psutil.Process(pid)
                words = process.cmdline()
                if {"compute", "kilonova"} <= set(words):
                    found["agent"].append(process)
                elif any(word.endswith("libvirtd") for word in words):
                    found["libvirtd"].append(process)
                elif words and _EMULATOR not in words[0]:
                    found["others"].append(process)
        return found

    def stop(self) -> None:
        self._supervisor.stop()


# --- comparison -------------------------------------------------------------------------------------------------------


def main(arguments: list[str]) -> None:
    guests, rounds = (int(arguments[at]) if len(arguments) > at else usual for at, usual in ((0, GUESTS), (1, ROUNDS)))
    to_qemu: list[float] = []
    to_libvirt: list[float] = []
    with TemporaryDirectory(prefix="kilonova-bench-") as name:
        folder = Path(name)
        cloud = RealCloud(folder)
        try:
            cloud.build(1)
            made = cloud.made_guest()
            cloud.delete_all()
            for number in range(rounds):
                qemu, script, built, said = _round(cloud, folder, number, guests, made)
                to_qemu.append(built.up_s / qemu.up_s)
                to_libvirt.append(built.up_s / script.up_s)
                print(
                    f"{guests} guests up: by QEMU {qemu.up_s:.1f} s, by libvirt {script.up_s:.1f} s, "
                    f"by the cloud {built.up_s:.1f} s ({to_qemu[-1]:.2f} x and {to_libvirt[-1]:.2f} x); {said}\n"
                    f"    CPU time: guests {qemu.emulators_s:.1f}, {script.emulators_s:.1f} and "
                    f"{built.emulators_s:.1f} s; of the cloud: libvirtd {built.libvirtd_s:.1f}, "
                    f"agent {built.agent_s:.1f}, others {built.others_s:.1f} s",
                    flush=True,
                )
        finally:
            cloud.stop()
    print(
        f"median {statistics.median(to_qemu):.2f} x the script with QEMU, {statistics.median(to_libvirt):.2f} x the "
        f"script with libvirt; goal {GOAL} x, and {GOAL_MIB:.0f} MiB for the agent"
    )


def _round(
    cloud: RealCloud, folder: Path, number: int, guests: int, made: MadeGuest
) -> tuple[Spent, Spent, Built, str]:
    """Run the three methods, starting with a different one in each round; return their times and a summary."""
    found: dict[str, Any] = {}

    def by_cloud() -> None:
        found["built"] = cloud.build(guests)
        rss, pss = cloud.memory_of_agent()
        deleted = cloud.delete_all()
        found["said"] = (
            f"all ACTIVE after {found['built'].active_s:.1f} s, all deleted after {deleted:.1f} s; "
            f"agent RSS {rss:.0f} MiB, PSS {pss:.0f} MiB"
        )

    def by_script() -> None:
        found["script"] = by_libvirt(folder / f"libvirt{number}", guests, made, cloud.libvirt_uri)

    def by_hand() -> None:
        found["qemu"] = by_qemu(folder / f"qemu{number}", guests, made.cpu)

    ways = (by_hand, by_script, by_cloud)
    for at in range(len(ways)):
        ways[(at + number) % len(ways)]()
    return found["qemu"], found["script"], found["built"], found["said"]


if __name__ == "__main__":
    main([])
