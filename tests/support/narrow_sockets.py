# SPDX-License-Identifier: Apache-2.0
"""TCP sockets for which the kernel chooses among few source ports, so that rare collisions of ports always happen."""

import errno
import socket
import struct

import pytest

from kilonova.bundled_services.free_ports import LOOPBACK

_IP_LOCAL_PORT_RANGE = 51  # linux/in.h, since Linux 6.3: the ephemeral range of one socket


def narrow_sockets(first: int, last: int) -> type[socket.socket]:
    """Return a class of sockets whose ephemeral range is ``first`` to ``last``, within that of the machine."""

    class NarrowSocket(socket.socket):
        def __init__(self, family: int = -1, kind: int = -1, protocol: int = -1, fileno: int | None = None) -> None:
            super().__init__(family, kind, protocol, fileno)
            try:
                self.setsockopt(socket.IPPROTO_IP, _IP_LOCAL_PORT_RANGE, struct.pack("=I", last << 16 | first))
            except OSError as error:
                if error.errno == errno.ENOPROTOOPT:
                    pytest.skip("needs Linux 6.3")
                raise

    return NarrowSocket


def ephemeral_port() -> int:
    """Return an unused port of the machine's ephemeral range."""
    with socket.socket() as any_one:
        any_one.bind((LOOPBACK, 0))
        port: int = any_one.getsockname()[1]
        return port
