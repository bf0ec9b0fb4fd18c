# SPDX-License-Identifier: Apache-2.0
"""Programs that make disks: they end with their parent, at their timeout, and when they are cancelled."""

import subprocess
import sys
from pathlib import Path

import pytest

from kilonova.compute.virt.libvirt.disks.commands import CommandFailed, Limits, run
from kilonova.errors import SnapshotCancelled
from support.real_images import MIB
from support.waiting import wait_until


def test_qemu_img_ends_with_whoever_waits_for_it(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    program = (
        "from kilonova.compute.virt.libvirt.disks.commands import run\n"
        f"run(['sh', '-c', 'echo $$ >{noted}; exec sleep 60'])\n"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        wait_until(lambda: noted.exists() and noted.read_text().endswith("\n"), "the program to run")
        status = Path(f"/proc/{int(noted.read_text())}/stat")
        assert status.exists()
        process.kill()
        process.wait()
        wait_until(lambda: not status.exists() or ") Z " in status.read_text(), "the program to end")


def test_a_program_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"sleep took longer than 0 seconds"):
        run(["sleep", "60"], Limits(wall_s=0.2))
    with pytest.raises(CommandFailed, match="nothing-of-this-name"):
        run(["nothing-of-this-name"])
    with pytest.raises(CommandFailed, match="dd failed"):
        run(["dd", "if=/dev/zero", f"of={tmp_path / 'large'}", "bs=1M", "count=2"], Limits(output_bytes=MIB))


def test_a_program_is_given_up_when_it_is_not_wanted_any_more() -> None:
    looks = iter(range(3))

    def check() -> None:
        if next(looks, None) is None:
            raise SnapshotCancelled

    with pytest.raises(SnapshotCancelled):
        run(["sleep", "60"], check=check)
