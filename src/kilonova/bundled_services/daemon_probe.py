# SPDX-License-Identifier: Apache-2.0
"""Whether a daemon accepts connections on its Unix socket, and whether it has ended."""

import contextlib
import select
import socket

_CONNECT_S = 2.0


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
