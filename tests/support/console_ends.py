# SPDX-License-Identifier: Apache-2.0
"""Viewer of one console endpoint of a simulated guest."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from kilonova.compute.virt.fake.console_ends import ConsoleEnds, Talk

_LOOPBACK = "127.0.0.1"


@contextmanager
def connected(talk: Talk) -> Iterator[socket.socket]:
    """Open a console endpoint with this dialogue, and connect to it."""
    ends = ConsoleEnds()
    port = ends.port_of("a", _LOOPBACK, talk, lambda: True)
    with socket.create_connection((_LOOPBACK, port), timeout=5) as viewer:
        yield viewer
    ends.close()


def read(viewer: socket.socket, count: int) -> bytes:
    """Return ``count`` bytes, or fewer if the endpoint closes."""
    data = b""
    while len(data) < count and (more := viewer.recv(count - len(data))):
        data += more
    return data
