# SPDX-License-Identifier: Apache-2.0
"""Standard output and standard error of a process whose log is a file."""

import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import logging, os, sys
from pathlib import Path
from kilonova.logs.rotation import LogFile
from kilonova.logs.setup import configure
configure(file=LogFile(Path(sys.argv[1]), max_bytes=2000, kept=3))
for number in range(60):
    logging.getLogger("kilonova").info("logged %d", number)
os.write(2, b"printed at the end")
os.write(1, b", twice")
"""


@pytest.mark.parametrize("same", [True, False])
def test_what_is_printed_into_the_log_goes_where_the_log_goes(tmp_path: Path, same: bool) -> None:
    log, other = tmp_path / "a.log", tmp_path / "output"
    with (log if same else other).open("ab") as output:
        subprocess.run([sys.executable, "-c", _PROGRAM, str(log)], stdout=output, stderr=output, check=True)
    assert (tmp_path / "a.log.1").exists()
    assert (log if same else other).read_text().endswith("printed at the end, twice")
    assert "printed" not in (tmp_path / "a.log.1").read_text()
    assert other.exists() != same
