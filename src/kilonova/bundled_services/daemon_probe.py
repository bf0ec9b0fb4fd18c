# SPDX-License-Identifier: Apache-2.0
"""Whether a daemon accepts connections on its Unix socket, whether it has ended, and the wait until it is ready."""

import contextlib
import select
import socket
import time
from pathlib import Path
from typing import Protocol

from kilonova.errors import Unavailable

_CONNECT_S = 2.0
_PAUSE_S = 0.01


class Daemon(Protocol):
    """A daemon that was started. ``log``: its log file, named in errors."""

    name: str
    log: Path

    def answers(self) -> bool:
        """Return whether the daemon is ready."""

    def ended(self) -> bool:
        """Return whether the daemon has ended or was never started."""

    def obituary(self) -> str:
        """Return how the daemon ended, with the last lines of its log."""


def wait_until_ready(daemon: Daemon, timeout_s: float) -> None:
    """Wait until a daemon is ready. Raises: Unavailable if it has ended, or is not ready after ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not daemon.answers():
        if daemon.ended():
            raise Unavailable(daemon.obituary())
        if time.monotonic() > deadline:
            raise Unavailable(f"{daemon.name} is not ready after {timeout_s:g} s; see {daemon.log}")
        time.sleep(_PAUSE_S)


def accepts_connections(path: str) -> bool:
    """Return whether a process accepts connections on the Unix socket at ``path``."""
    with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(OSError):
        client.settimeout(_CONNECT_S)
        client.connect(path)
        return True
    return False


def wait_for_end(pidfd: int, timeout_s: float) -> bool:
    """Wait until a process exits. Return whether it has exited within ``timeout_s``."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(max(0.0, timeout_s) * 1000))
