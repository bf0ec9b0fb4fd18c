# SPDX-License-Identifier: Apache-2.0
"""``kilonova up --hypervisor libvirt`` with the stock client, from the first boot to the complete removal."""

import os
import re
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kilonova.bundled_services.libvirtd import Libvirtd
from kilonova.cli.up.tiny_image import tiny_image
from support.stock_cloud import StockCloud
from support.supervisor import Supervisor
from support.waiting import wait_until

pytestmark = pytest.mark.cloud

_SAYS = "Kilonova test image: "


@dataclass
class RealCloud:
    """Data folder on which clouds are started and stopped while its guests keep running."""

    folder: Path
    supervisor: Supervisor | None = None

    @property
    def libvirtd(self) -> Libvirtd:
        """The libvirtd of the folder, for inspection only."""
        return Libvirtd(self.folder / "libvirt")

    def start(self, *arguments: str) -> StockCloud:
        self.supervisor = Supervisor(self.folder, arguments=("--hypervisor", "libvirt", *arguments)).start()
        return StockCloud(self.supervisor.until_ready())

    def end(self, number: signal.Signals = signal.SIGINT) -> str:
        """Signal the supervisor, and return its output since it became ready."""
        assert self.supervisor is not None
        self.supervisor.process.send_signal(number)
        said, complaints = self.supervisor.process.communicate(timeout=60)
        assert self.supervisor.process.returncode == (0 if number is signal.SIGINT else -number), complaints
        return said

    def kill_libvirtd(self) -> None:
        """Kill libvirtd, and wait until the supervisor announces its restart."""
        assert self.supervisor is not None
        (pid,) = (pid for pid, words in self.libvirtd.processes() if Path(words[0]).name == "libvirtd")
        os.kill(pid, signal.SIGKILL)
        self.supervisor.next_line("libvirtd ended; starting it again in 1 s, log in ")
        wait_until(self.libvirtd_runs, "libvirtd to run again", at_most_s=20)

    def libvirtd_runs(self) -> bool:
        return any(Path(words[0]).name == "libvirtd" for _, words in self.libvirtd.processes())


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[RealCloud]:
    made = RealCloud(tmp_path / "data")
    yield made
    if made.supervisor is not None:
        made.supervisor.stop()
    made.libvirtd.end_guests()


def boots(cloud: StockCloud, server: str) -> int:
    """Return the number of boots that the guest's console shows."""
    numbers = re.findall(rf"{_SAYS}boot ([0-9]+),", cloud.do("console", "log", "show", server))
    assert numbers == [str(number + 1) for number in range(len(numbers))]
    return len(numbers)


def status(cloud: StockCloud, server: str) -> str:
    return cloud.do("server", "show", server, "-f", "value", "-c", "status").strip()


def wait_for_boots(cloud: StockCloud, server: str, count: int) -> None:
    wait_until(lambda: boots(cloud, server) == count, f"boot {count} of {server}", at_most_s=30, every_s=0.2)


def test_a_guest_outlives_its_cloud_however_that_ends(cloud: RealCloud) -> None:
    stock = cloud.start()
    stock.do("server", "create", "--flavor", "m1.tiny", "--image", "tiny", "--wait", "first")
    wait_for_boots(stock, "first", 1)
    stock.do("server", "reboot", "--wait", "first")
    wait_for_boots(stock, "first", 2)
    assert f"{_SAYS}power button" in stock.do("console", "log", "show", "first")
    guests = cloud.libvirtd.guests()
    assert len(guests) == 1

    cloud.kill_libvirtd()
    assert cloud.libvirtd.guests() == guests
    stock.do("server", "reboot", "--wait", "first")
    wait_for_boots(stock, "first", 3)
    guests = cloud.libvirtd.guests()

    cloud.end(signal.SIGKILL)
    wait_until(lambda: not cloud.libvirtd_runs(), "libvirtd to end with the supervisor", at_most_s=20)
    assert cloud.libvirtd.guests() == guests

    stock = cloud.start()
    assert (status(stock, "first"), boots(stock, "first")) == ("ACTIVE", 3)
    (pid,) = guests.values()
    assert f"1 guest keeps running; the next start finds it. To kill it: kill {pid}\nstopped\n" in cloud.end()
    assert not cloud.libvirtd_runs()
    assert cloud.libvirtd.guests() == guests

    stock = cloud.start("--guests-on-stop", "stop")
    assert (status(stock, "first"), boots(stock, "first")) == ("ACTIVE", 3)
    assert cloud.end().endswith("\nstopping\nstopped\n")
    wait_until(lambda: not list(cloud.libvirtd.processes()), "the helper processes of the guest to end")

    stock = cloud.start()
    wait_until(lambda: status(stock, "first") == "SHUTOFF", "the server to be SHUTOFF", at_most_s=30, every_s=0.2)
    stock.do("server", "start", "first")
    wait_for_boots(stock, "first", 4)
    (folder,) = (path for path in (cloud.folder / "instances").iterdir() if path.is_dir() and path.name != "_base")
    stock.do("server", "delete", "--wait", "first")
    wait_until(lambda: not folder.exists(), "its disks to be removed")
    assert not cloud.libvirtd.guests()
    assert cloud.end().endswith("\nstopping\nstopped\n")
    wait_until(lambda: not list(cloud.libvirtd.processes()), "all processes of libvirt to end")
    left = [path for path in (cloud.folder / "libvirt").rglob("*") if "instance-0" in path.name]
    assert [path.name for path in left if path.parent.name != "qemu" or path.suffix != ".log"] == []


def test_a_guest_that_ignores_its_power_button_and_whose_image_is_gone(cloud: RealCloud, tmp_path: Path) -> None:
    options = tmp_path / "more.conf"
    options.write_text("[DEFAULT]\nshutdown_timeout = 2\n[libvirt]\nwait_soft_reboot_seconds = 2\n")
    (tmp_path / "deaf.raw").write_bytes(tiny_image(obeys_acpi=False))
    stock = cloud.start("--config-file", str(options))
    stock.do("image", "create", "--disk-format", "raw", "--file", str(tmp_path / "deaf.raw"), "deaf")
    stock.do("server", "create", "--flavor", "m1.tiny", "--image", "deaf", "--wait", "first")
    wait_for_boots(stock, "first", 1)
    stock.do("server", "reboot", "--wait", "first")
    wait_for_boots(stock, "first", 2)
    assert f"{_SAYS}power button" not in stock.do("console", "log", "show", "first")

    stock.do("image", "delete", "deaf")
    stock.do("server", "reboot", "--wait", "first")
    wait_for_boots(stock, "first", 3)
    stock.do("server", "reboot", "--hard", "--wait", "first")
    wait_for_boots(stock, "first", 4)
    stock.do("server", "resize", "--flavor", "m1.small", "--wait", "first")
    stock.do("server", "resize", "confirm", "first")
    assert "No image found with ID" in stock.refused("server", "rebuild", "first", cloud="kilonova")
    wait_until(lambda: status(stock, "first") == "ACTIVE", "the size to be confirmed", at_most_s=30, every_s=0.2)
    stock.do("server", "delete", "--wait", "first")


def test_a_cloud_of_real_and_simulated_hosts_in_agent_processes(cloud: RealCloud) -> None:
    stock = cloud.start("--hosts", "1", "--agents", "2")
    hypervisors = {each["Hypervisor Hostname"]: each["Hypervisor Type"] for each in stock.show("hypervisor", "list")}
    machine = socket.gethostname()
    assert hypervisors == {machine: "QEMU", "node1": "fake"}
    image = ("--flavor", "m1.tiny", "--image", "tiny", "--wait")
    for host, name in ((machine, "real"), ("node1", "simulated")):
        stock.do("server", "create", *image, "--availability-zone", f"nova:{host}", name)
    wait_for_boots(stock, "real", 1)
    assert len(cloud.libvirtd.guests()) == 1
    assert _SAYS not in stock.do("console", "log", "show", "simulated")
    stock.do("server", "delete", "--wait", "real", "simulated")
    assert cloud.end().endswith("\nstopping\nstopped\n")
    wait_until(lambda: not list(cloud.libvirtd.processes()), "all processes of libvirt to end")
