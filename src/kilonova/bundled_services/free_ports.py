# SPDX-License-Identifier: Apache-2.0
"""Free loopback ports for servers that will be started in other processes.

Ports outside the kernel's ephemeral range are preferred: a client connection may take an ephemeral port before the
server binds it.
"""

import random
import socket
from contextlib import ExitStack
from pathlib import Path

LOOPBACK = "127.0.0.1"
_FIRST, _MOST_TRIES = 10_000, 1_000
_OF_CONNECTIONS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """Return a port that is unused at present."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return ``count`` different ports that are unused at present."""
    end = _first_of_connections()
    found: list[int] = []
    with ExitStack() as held:
        for number in random.SystemRandom().sample(range(_FIRST, end), min(_MOST_TRIES, end - _FIRST)):
            if len(found) == count:
                break
            if _is_taken(number, held):
                continue
            found.append(number)
        while len(found) < count:  # fall back to ephemeral ports; bind() raises OSError if no port is free
            any_one = held.enter_context(socket.socket())
            any_one.bind((LOOPBACK, 0))
            found.append(any_one.getsockname()[1])
    return found


def can_listen(port: int) -> bool:
    """Return whether a server could bind this port now. Old connections in TIME_WAIT do not prevent that."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def _is_taken(port: int, held: ExitStack) -> bool:
    probe = held.enter_context(socket.socket())
    try:
        probe.bind((LOOPBACK, port))
    except OSError:
        return True
    return False


def _first_of_connections() -> int:
    """Return the first port of the kernel's ephemeral range, but at least ``_FIRST``."""
    try:
        return max(_FIRST, int(_OF_CONNECTIONS.read_text(encoding="ascii").split()[0]))
    except (OSError, ValueError):
        return _FIRST
