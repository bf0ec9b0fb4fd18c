# SPDX-License-Identifier: Apache-2.0
"""`tools/run_tests.sh` names the tests that pass at a second run, with the reason of their failure."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_TESTS = """
import subprocess, time
from pathlib import Path
FIRST = Path(__file__).with_name("ran")

def first(name):
    seen = Path(str(FIRST) + name)
    if seen.exists():
        return False
    seen.touch()
    return True

def test_race():
    assert not first("race")

def test_waits():
    deadline = time.monotonic() - 1
    while first("waits"):
        assert time.monotonic() < deadline, "never came"

def test_command():
    if first("command"):
        raise subprocess.TimeoutExpired(["a"], 1)

def test_steady():
    pass
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with the script, the plug-in and a few tests."""
    for name in ("tools/run_tests.sh", "tests/support/failures.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = tests\n")
    (tmp_path / "tests/conftest.py").write_text("from support.failures import pytest_runtest_makereport\n")
    (tmp_path / "tests/test_some.py").write_text(_TESTS)
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    return tmp_path


def test_unsteady_tests_have_their_reasons(tree: Path) -> None:
    named = tree / "unsteady"
    done = subprocess.run(
        [tree / "tools/run_tests.sh", "tests"],
        env={**os.environ, "KILONOVA_UNSTEADY": str(named), "KILONOVA_ONCE": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(named.read_text().splitlines()) == [
        "other\ttests/test_some.py::test_race",
        "time limit\ttests/test_some.py::test_command",
        "time limit\ttests/test_some.py::test_waits",
    ]
