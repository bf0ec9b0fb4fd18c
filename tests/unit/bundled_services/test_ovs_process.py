# SPDX-License-Identifier: Apache-2.0
"""A daemon that listens on a Unix socket, here a script: its start, its ends, and its start again."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.bundled_services.ovs_process import OvsProcess
from kilonova.bundled_services.settings import LOG_BYTES
from kilonova.bundled_services.short_way import make_short_way, short_way
from kilonova.errors import Unavailable
from support.waiting import wait_until

LISTEN = """
import os, signal, socket, sys, time
{prepare}
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1].format(pid=os.getpid()))
listener.listen()
time.sleep(600)
"""


def daemon(folder: Path, prepare: str = "") -> OvsProcess:
    path = f"{short_way(folder, len('/4194304.ctl'))}/{{pid}}.ctl"  # the temporary folder may be too deep for a socket
    if not path.startswith(str(folder)):
        make_short_way(Path(path).parent, folder)
    command = [sys.executable, "-c", LISTEN.format(prepare=prepare), path]
    return OvsProcess("daemon", command, path, folder / "log", dict(os.environ))


@pytest.fixture
def process(tmp_path: Path) -> Iterator[OvsProcess]:
    made = daemon(tmp_path)
    assert made.ended()
    assert not made.answers()
    made.start()
    made.wait()
    yield made
    made.stop()


def test_it_is_ready_when_it_listens_and_can_be_started_again(process: OvsProcess) -> None:
    assert not process.ended()
    for _ in range(2):
        signal.pidfd_send_signal(process.pidfd, signal.SIGKILL)
        wait_until(process.ended, "the end")
        assert process.ending() == "was killed by SIGKILL"
        assert not process.answers()
        process.restart()
        process.wait()


def test_a_stop_is_final_and_can_be_repeated(process: OvsProcess) -> None:
    signal.pidfd_send_signal(process.pidfd, signal.SIGSTOP)
    for _ in range(2):
        process.stop()
        assert process.ended()


def test_one_that_fails_is_told_with_its_last_lines(tmp_path: Path) -> None:
    failing = daemon(tmp_path, "sys.exit('no database')")
    failing.start()
    with pytest.raises(Unavailable, match=r"daemon ended with exit status 1; the last lines of .*log:\n  no database"):
        failing.wait()
    failing.stop()


def test_a_log_that_is_too_large_is_rotated_once(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x" * (LOG_BYTES + 1))
    made = daemon(tmp_path)
    made.start()
    made.stop()
    assert (tmp_path / "log.1").stat().st_size > LOG_BYTES
    assert (tmp_path / "log").stat().st_size == 0
