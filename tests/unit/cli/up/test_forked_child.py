# SPDX-License-Identifier: Apache-2.0
"""Children that run in a copy of the supervisor.

A supervisor of these tests is a process of its own: a copy of a process that runs tests would not be what it claims.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.waiting import wait_until

#: A supervisor that starts the module ``inner`` as a child named "worker", and then runs the lines of a test.
_SUPERVISOR = """
import atexit, os, signal, socket, sys, threading, time
from pathlib import Path
from kilonova.cli.up.children import RUN_MODULE, stop
from kilonova.cli.up.forked_child import ForkedChild

folder = Path(sys.argv[1])
held = socket.create_server(("127.0.0.1", 0))
signal.signal(signal.SIGTERM, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
atexit.register(lambda: print("the supervisor's own clean-up", os.getpid(), flush=True))
def start(*words, command=RUN_MODULE):
    return ForkedChild("worker", (*command, *words), folder / "w.log", "http://127.0.0.1:1/", folder,
                       [str(folder / "modules")])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "modules").mkdir()
    return tmp_path


def _supervise(folder: Path, lines: str, inner: str) -> "subprocess.Popen[str]":
    (folder / "modules" / "inner.py").write_text(inner)
    return subprocess.Popen(
        [sys.executable, "-c", _SUPERVISOR + lines, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.PIPE,
        text=True,
        env={**os.environ, "OS_CLOUD": "elsewhere"},
    )


def _run(folder: Path, lines: str, inner: str) -> str:
    process = _supervise(folder, lines, inner)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    return output


_REPORT = """
import json, os, signal, sys
print(json.dumps({
    "argv": sys.argv,
    "cwd": os.getcwd(),
    "path": sys.path,
    "session": os.getsid(0) == os.getpid(),
    "descriptors": sorted(int(each) for each in os.listdir("/proc/self/fd")),
    "cloud": os.environ.get("OS_CLOUD"),
    "main": __name__,
    "term": signal.getsignal(signal.SIGTERM) == signal.SIG_DFL,
    "hup": signal.getsignal(signal.SIGHUP) == signal.SIG_IGN,
    "mask": len(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "title": open("/proc/self/cmdline").read().rstrip(chr(0)),
}))
print(input() if sys.stdin.readable() and sys.argv[-1] == "read" else "")
"""


def test_a_child_runs_its_module_like_a_new_process(folder: Path) -> None:
    _run(folder, "child = start('inner', '--settings', 'x')\nprint(child.ending())", _REPORT)
    told: dict[str, Any] = json.loads((folder / "w.log").read_text().splitlines()[0])
    assert told["argv"][1:] == ["--settings", "x"]
    assert Path(told["argv"][0]).name == "inner.py"
    assert told["cwd"] == str(folder)
    assert told["session"] is told["term"] is told["hup"] is True
    assert told["mask"] == 0
    assert told["cloud"] is None
    assert told["main"] == "__main__"
    assert told["title"].endswith(" -m inner --settings x")
    assert "" not in told["path"]
    assert told["path"].index(str(folder / "modules")) < len(told["path"]) - 2  # before the standard library
    assert [each for each in told["descriptors"] if each > 2] in ([3], [])  # 3: the list of descriptors itself


def test_input_of_a_child_is_empty(folder: Path) -> None:
    output = _run(folder, "child = start('inner', 'read')\nprint(child.ending())", _REPORT)
    assert "ended with exit status 1" in output
    assert "EOFError" in (folder / "w.log").read_text()


@pytest.mark.parametrize(
    ("inner", "ending", "log"),
    [
        ("", "ended with exit status 0", ""),
        ("import sys; sys.exit(3)", "ended with exit status 3", ""),
        ("import sys; sys.exit('no such thing')", "ended with exit status 1", "no such thing\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV", ""),
        ("import atexit; atexit.register(print, 'cleaned up')", "ended with exit status 0", "cleaned up\n"),
        (
            "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.1), print('last thread'))).start()",
            "ended with exit status 0",
            "last thread\n",
        ),
    ],
)
def test_a_child_ends_as_its_module_does(folder: Path, inner: str, ending: str, log: str) -> None:
    output = _run(folder, "child = start('inner')\nprint(child.ending())", inner)
    assert output.splitlines()[0] == ending
    assert output.count("the supervisor's own clean-up") == 1
    assert (folder / "w.log").read_text() == log


def test_an_error_of_a_child_is_in_its_log_and_not_the_supervisors(folder: Path) -> None:
    output = _run(folder, "child = start('inner')\nprint(child.obituary())", "1 / 0")
    assert "worker ended with exit status 1" in output
    assert "ZeroDivisionError" in output


def test_a_child_is_stopped_and_restarted(folder: Path) -> None:
    lines = (
        "def until_here(times):\n"
        "    while (folder / 'w.log').read_text().count('here') < times:\n        time.sleep(0.01)\n"
        "child = start('inner')\nfirst = child.pid\nuntil_here(1)\nchild.kill()\nprint(child.ending())\n"
        "child.restart()\nuntil_here(2)\nprint(child.pid != first, not child.ended())\n"
        "stop([child])\nprint(Path(f'/proc/{child.pid}').exists())"
    )
    output = _run(folder, lines, "import time\nprint('here')\ntime.sleep(1000)")
    assert output.splitlines()[:3] == ["was killed by SIGKILL", "True True", "False"]


def test_a_child_is_killed_at_once(folder: Path) -> None:
    output = _run(folder, "child = start('inner')\nchild.reap()\nprint('gone')", "import time\ntime.sleep(1000)")
    assert output.splitlines()[0] == "gone"


def test_a_child_dies_with_its_supervisor(folder: Path) -> None:
    lines = "child = start('inner')\nprint(child.pid, flush=True)\ntime.sleep(1000)"
    process = _supervise(folder, lines, "import time\ntime.sleep(1000)")
    assert process.stdout is not None
    child = os.pidfd_open(int(process.stdout.readline()))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    wait_until(lambda: _has_ended(child), "the child ends", at_most_s=5)
    os.close(child)


def test_commands_of_other_programs_run_in_new_processes(folder: Path) -> None:
    program = "import sys; print(sys.argv[1:])"
    _run(folder, f"child = start('-c', {program!r}, 'x', command=(sys.executable,))\nprint(child.ending())", "")
    assert (folder / "w.log").read_text() == "['x']\n"


def _has_ended(pidfd: int) -> bool:
    try:
        signal.pidfd_send_signal(pidfd, 0)
    except ProcessLookupError:
        return True
    return False
