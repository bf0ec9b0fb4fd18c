# SPDX-License-Identifier: Apache-2.0
"""Sample of the kills of a process with real guests; `make guest-crashes` runs all of them."""

import os
import subprocess
import sys
from pathlib import Path

from support.libvirt_node import LibvirtNode

_TESTS = Path(__file__).parents[1]


def test_servers_guests_and_disks_fit_together_whenever_their_process_is_killed(libvirt_node: LibvirtNode) -> None:
    command = [sys.executable, "-m", "crash.guest_matrix", "--uri", libvirt_node.uri, "--sample", "6", "--seed", "5"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(_TESTS)}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "guests: 6 kills" in done.stdout, done.stdout
