# SPDX-License-Identifier: Apache-2.0
"""Boot of the image ``tiny`` on every disk bus and both machine types."""

import contextlib
import json
import select
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilonova.cli.up import tiny_image
from support.waiting import wait_until

_PREFIX = "Kilonova test image: "
_SOURCE = Path(tiny_image.__file__).with_suffix(".S")

#: Bus → QEMU arguments that attach the disk with the id ``d``.
DEVICES = {
    "virtio": ["virtio-blk-pci,drive=d"],
    "ide": ["ide-hd,drive=d,bus=ide.0"],
    "sata": ["ahci,id=sata", "ide-hd,drive=d,bus=sata.0"],
    "scsi": ["virtio-scsi-pci", "scsi-hd,drive=d"],
    "usb": ["piix3-usb-uhci,id=usb", "usb-storage,drive=d,bus=usb.0"],
}


class Machine:
    """QEMU process with one serial port. ``text``: the guest's output on it."""

    def __init__(self, folder: Path, *arguments: str, machine: str) -> None:
        self._qmp = folder / "qmp"
        command = ["qemu-system-x86_64", "-accel", "tcg", "-machine", machine, "-m", "32", "-display", "none"]
        command += ["-nodefaults", "-vga", "std", "-serial", "stdio", "-qmp", f"unix:{self._qmp},server=on,wait=off"]
        self.process = subprocess.Popen([*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.text = ""

    def wait_for(self, line: str, times: int = 1) -> None:
        assert self.process.stdout is not None
        deadline = time.monotonic() + 30
        while self.text.count(f"{_PREFIX}{line}\r\n") < times:
            assert time.monotonic() < deadline, self.text
            if select.select([self.process.stdout], [], [], 1)[0]:
                more = self.process.stdout.read1(4096)
                assert more, f"QEMU ended after {self.text!r}"
                self.text += more.decode()

    def press(self, key: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(key.encode())
        self.process.stdin.flush()

    def ask(self, *commands: tuple[str, dict[str, Any]]) -> None:
        with socket.socket(socket.AF_UNIX) as client:
            wait_until(self._qmp.exists, "QEMU to listen")
            client.connect(str(self._qmp))
            answers = client.makefile()
            answers.readline()
            for name, arguments in (("qmp_capabilities", {}), *commands):
                client.sendall(json.dumps({"execute": name, "arguments": arguments}).encode())
                while "return" not in json.loads(answers.readline()):
                    pass

    def power_off_by_button(self) -> None:
        self.ask(("system_powerdown", {}))
        assert self.process.wait(20) == 0


@contextlib.contextmanager
def machine(folder: Path, *arguments: str, machine: str = "pc") -> Iterator[Machine]:
    made = Machine(folder, *arguments, machine=machine)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.communicate()


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    path = tmp_path / "disk.raw"
    path.write_bytes(tiny_image.tiny_image())
    return path


def on(bus: str, disk: Path, disk_format: str = "raw") -> list[str]:
    drive = ["-drive", f"if=none,id=d,file={disk},format={disk_format}"]
    return drive + [word for device in DEVICES[bus] for word in ("-device", device)]


def test_the_bytes_are_what_the_source_says(tmp_path: Path) -> None:
    """After a change of tiny_image.S, copy the hexadecimal digits that this test prints into tiny_image.py."""
    subprocess.run(["as", "--32", _SOURCE, "-o", tmp_path / "o"], check=True)
    link = ["ld", "-m", "elf_i386", "-Ttext", "0x7c00", "--oformat", "binary", tmp_path / "o", "-o", tmp_path / "b"]
    subprocess.run(link, check=True)
    code = (tmp_path / "b").read_bytes()
    assert len(code) <= 440
    assert tiny_image.tiny_image()[:440] == code.ljust(440, b"\0"), code.hex()


@pytest.mark.parametrize(
    ("bus", "kind"),
    [("virtio", "pc"), ("virtio", "q35"), ("ide", "pc"), ("sata", "q35"), ("scsi", "q35"), ("usb", "pc")],
)
def test_it_counts_its_boots_and_obeys_the_power_button(tmp_path: Path, disk: Path, bus: str, kind: str) -> None:
    for boot in (1, 2):
        with machine(tmp_path, *on(bus, disk), machine=kind) as guest:
            guest.wait_for(f"boot {boot}, disks 1")
            guest.power_off_by_button()


def test_a_disk_of_a_backing_file_counts_for_itself(tmp_path: Path, disk: Path) -> None:
    overlay = tmp_path / "overlay.qcow2"
    words = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", disk, overlay, "1G"]
    subprocess.run(words, check=True)
    for boot in (1, 2):
        with machine(tmp_path, *on("virtio", overlay, "qcow2")) as guest:
            guest.wait_for(f"boot {boot}, disks 1")
    assert disk.read_bytes() == tiny_image.tiny_image()


def test_keys_end_and_reset_it_from_inside(tmp_path: Path, disk: Path) -> None:
    other = tmp_path / "other.raw"
    other.write_bytes(bytes(1 << 20))
    with machine(tmp_path, *on("virtio", disk), "-drive", f"if=virtio,file={other},format=raw", machine="q35") as guest:
        guest.wait_for("boot 1, disks 2")
        guest.press("r")
        guest.wait_for("boot 2, disks 2")
        guest.press("xq")
        assert guest.process.wait(20) == 0


@pytest.mark.parametrize("kind", ["pc", "q35"])
def test_the_deaf_variant_ignores_the_power_button(tmp_path: Path, kind: str) -> None:
    disk = tmp_path / "disk.raw"
    disk.write_bytes(tiny_image.tiny_image(obeys_acpi=False))
    with machine(tmp_path, *on("virtio", disk), machine=kind) as guest:
        guest.wait_for("boot 1, disks 1")
        guest.ask(("system_powerdown", {}))
        with pytest.raises(subprocess.TimeoutExpired):
            guest.process.wait(1.5)
        guest.press("r")
        guest.wait_for("boot 2, disks 1")


def test_it_starts_from_what_cannot_be_written(tmp_path: Path, disk: Path) -> None:
    with machine(tmp_path, "-drive", f"if=virtio,file={disk},format=raw,readonly=on") as guest:
        guest.wait_for("boot 1, disks 1")
        guest.power_off_by_button()
    assert disk.read_bytes() == tiny_image.tiny_image()


@pytest.mark.parametrize("kind", ["pc", "q35"])
def test_it_starts_from_a_cd(tmp_path: Path, disk: Path, kind: str) -> None:
    with machine(tmp_path, "-cdrom", str(disk), machine=kind) as guest:
        guest.wait_for("boot 0, disks 0")
        guest.power_off_by_button()


def test_it_writes_to_the_screen_and_hears_the_keyboard(tmp_path: Path, disk: Path) -> None:
    with machine(tmp_path, *on("virtio", disk)) as guest:
        guest.wait_for("boot 1, disks 1")
        screen = tmp_path / "screen"
        # VGA text memory: characters and colours
        guest.ask(("pmemsave", {"val": 0xB8000, "size": 4000, "filename": str(screen)}))
        assert b"Kilonova test image: boot 1, disks 1" in screen.read_bytes()[::2]
        guest.ask(("send-key", {"keys": [{"type": "qcode", "data": "q"}]}))
        assert guest.process.wait(20) == 0
