# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_the_other_process_takes_over(database_url: str) -> None:
    """Run in a separate process, because the test forks."""
    command = [sys.executable, "-m", "crash.pair", database_url, "--kills", "1", "--seed", "4"]
    folder = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
