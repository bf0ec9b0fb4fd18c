# SPDX-License-Identifier: Apache-2.0
"""`tools/in_memory.sh`: where the temporary files of the tests are."""

import os
import shutil
import subprocess
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "tools/in_memory.sh"
IN_MEMORY = Path("/dev/shm")


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    others = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    command = ["bash", str(PROGRAM), "bash", "-c", script]
    return subprocess.run(command, env=others | environment, capture_output=True, text=True, check=False)


def has_room() -> bool:
    free = shutil.disk_usage(IN_MEMORY).free if IN_MEMORY.exists() else 0
    told = Path("/proc/meminfo").read_text(encoding="ascii")
    available = next(int(line.split()[1]) << 10 for line in told.splitlines() if line.startswith("MemAvailable:"))
    return free >= 4 << 30 and available >= 6 << 30


def test_a_folder_that_goes_with_the_command_in_memory_if_there_is_enough() -> None:
    done = run("echo ${TMPDIR:-}; [ -z ${TMPDIR:-} ] || touch $TMPDIR/file; exit 3")
    folder = done.stdout.strip()
    assert done.returncode == 3
    assert bool(folder) == has_room()
    if folder:
        assert Path(folder).parent == IN_MEMORY
        assert not Path(folder).exists()


def test_a_place_that_was_chosen_is_kept(tmp_path: Path) -> None:
    done = run("echo $TMPDIR", TMPDIR=str(tmp_path))
    assert (done.returncode, done.stdout.strip()) == (0, str(tmp_path))
