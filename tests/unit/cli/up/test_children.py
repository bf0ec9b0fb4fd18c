# SPDX-License-Identifier: Apache-2.0
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kilonova.cli.up.children import Child, stop
from support.waiting import wait_until

Starter = Callable[[str], Child]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    started: list[Child] = []

    def start(program: str) -> Child:
        child = Child("worker", (sys.executable, "-c", program), tmp_path / "w.log", "http://127.0.0.1:1/", tmp_path)
        started.append(child)
        return child

    yield start
    for child in started:
        if Path(f"/proc/{child.pid}").exists():
            stop([child], timeout_s=0)


def test_a_child_that_ends_is_found_and_its_last_words_are_told(start: Starter) -> None:
    (lasting, failing) = (start("import time; time.sleep(1000)"), start("import sys; print('hm'); sys.exit('oh no')"))
    wait_until(failing.ended, "the child ends")
    assert not lasting.ended()
    story = failing.obituary()
    assert story.startswith("worker ended with exit status 1; the last lines of ")
    assert story.splitlines()[1:] == ["  hm", "  oh no"]
    assert not lasting.answers()


def test_only_what_this_run_wrote_is_told(start: Starter, tmp_path: Path) -> None:
    (tmp_path / "w.log").write_text("from the run before\n")
    child = start("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    wait_until(child.ended, "the child ends")
    assert child.obituary() == f"worker was killed by SIGSEGV; it wrote nothing to {tmp_path / 'w.log'}"


def test_stop_is_polite_first(start: Starter, tmp_path: Path) -> None:
    child = start(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('goodbye')))\n"
        "print('here')\ntime.sleep(1000)"
    )
    wait_until(lambda: "here" in (tmp_path / "w.log").read_text(), "the child writes")
    stop([child])
    assert "goodbye" in (tmp_path / "w.log").read_text()


def test_stop_ends_those_that_do_not_listen_and_what_they_started(start: Starter, tmp_path: Path) -> None:
    child = start(
        "import signal, subprocess, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print(subprocess.Popen(['sleep', '1000']).pid)\ntime.sleep(1000)"
    )
    wait_until(lambda: (tmp_path / "w.log").read_text().strip().isdigit(), "the child names its own")
    grandchild = int((tmp_path / "w.log").read_text())
    stop([child], timeout_s=0.1)
    wait_until(lambda: not Path(f"/proc/{grandchild}").exists() or _is_zombie(grandchild), "the grandchild ends")
    assert not Path(f"/proc/{child.pid}").exists()


def test_a_child_sees_no_openstack_settings_and_no_false_headers(
    start: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_CLOUD", "elsewhere")
    monkeypatch.setenv("HTTP_X_ROLES", "admin")
    child = start("import os; print(sorted(n for n in os.environ if n.startswith(('OS_', 'HTTP_X_'))))")
    wait_until(child.ended, "the child ends")
    assert (tmp_path / "w.log").read_text() == "[]\n"


def test_a_child_imports_from_the_folders_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "rule_of_ours.py").write_text("print('imported')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "from outside"))
    program = "import rule_of_ours, sys; print(sys.path)"
    command = (sys.executable, "-c", program)
    child = Child("c", command, tmp_path / "c.log", "http://127.0.0.1:1/", tmp_path, [str(tmp_path / "rules")])
    wait_until(child.ended, "the child ends")
    stop([child])
    assert "imported" in (tmp_path / "c.log").read_text()
    assert "from outside" in (tmp_path / "c.log").read_text()


def test_a_restarted_child_tells_its_own_last_words_in_the_same_log(start: Starter, tmp_path: Path) -> None:
    child = start("import os; print('life of', os.getpid())")
    wait_until(child.ended, "the first life ends")
    first = child.pid
    child.restart()
    assert child.pid != first
    assert not Path(f"/proc/{first}").exists()
    wait_until(child.ended, "the second life ends")
    assert child.ending() == "ended with exit status 0"
    assert child.obituary().splitlines()[1:] == [f"  life of {child.pid}"]
    assert (tmp_path / "w.log").read_text() == f"life of {first}\nlife of {child.pid}\n"


def test_a_restart_leaves_nothing_of_the_life_before(start: Starter, tmp_path: Path) -> None:
    child = start("import subprocess; print(subprocess.Popen(['sleep', '1000']).pid)")
    wait_until(child.ended, "the child ends")
    grandchild = int((tmp_path / "w.log").read_text())
    child.restart()
    wait_until(lambda: not Path(f"/proc/{grandchild}").exists() or _is_zombie(grandchild), "the grandchild ends")


def test_a_log_is_private(start: Starter, tmp_path: Path) -> None:
    wait_until(start("").ended, "the child ends")
    assert (tmp_path / "w.log").stat().st_mode & 0o777 == 0o600


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
