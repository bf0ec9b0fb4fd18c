# SPDX-License-Identifier: Apache-2.0
import os
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from kilonova.bundled_services.daemon_probe import accepts_connections, wait_for_end, wait_until_ready
from kilonova.errors import Unavailable


@dataclass
class Daemon:
    """A daemon that is ready at the probe with this number; None: never. ``has_ended``: it has ended before."""

    ready_at: int | None = None
    has_ended: bool = False
    name: str = "ovn-northd"
    log: Path = Path("northd.log")
    probes: int = 0

    def answers(self) -> bool:
        self.probes += 1
        return self.probes == self.ready_at

    def ended(self) -> bool:
        return self.has_ended

    def obituary(self) -> str:
        return "It has ended."


def test_only_a_socket_with_a_listener_accepts_connections(socket_folder: Path) -> None:
    path = str(socket_folder / "socket")
    assert not accepts_connections(path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        assert not accepts_connections(path)
        listener.listen()
        assert accepts_connections(path)
    assert not accepts_connections(path)


def test_the_end_of_a_process_is_noticed() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        pidfd = os.pidfd_open(process.pid)
        try:
            assert not wait_for_end(pidfd, -1.0)
            process.kill()
            assert wait_for_end(pidfd, 30.0)
        finally:
            os.close(pidfd)


def test_the_wait_ends_when_the_daemon_is_ready() -> None:
    daemon = Daemon(ready_at=3)
    wait_until_ready(daemon, 30.0)
    assert daemon.probes == 3


def test_the_wait_for_a_daemon_that_has_ended_fails_at_once() -> None:
    with pytest.raises(Unavailable, match=r"^It has ended\.$"):
        wait_until_ready(Daemon(has_ended=True), 30.0)


def test_a_daemon_that_is_not_ready_in_time_is_named_with_its_log() -> None:
    with pytest.raises(Unavailable, match=r"^ovn-northd is not ready after 0\.02 s; see northd\.log$"):
        wait_until_ready(Daemon(), 0.02)
