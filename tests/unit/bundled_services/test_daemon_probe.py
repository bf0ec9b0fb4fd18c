# SPDX-License-Identifier: Apache-2.0
import os
import socket
import subprocess
from pathlib import Path

from kilonova.bundled_services.daemon_probe import accepts_connections, wait_for_end


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
