# SPDX-License-Identifier: Apache-2.0
"""Viewers of every version of VNC's protocol get a screen, and terminals get what a guest has written."""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from kilonova.compute.virt.fake import console_ends
from kilonova.compute.virt.fake.console_ends import ConsoleEnds, Talk, serial_port
from kilonova.compute.virt.fake.rfb import black_screen

LOOPBACK = "127.0.0.1"


@contextmanager
def connected(talk: Talk) -> Iterator[socket.socket]:
    ends = ConsoleEnds()
    port = ends.port_of("a", LOOPBACK, talk, lambda: True)
    with socket.create_connection((LOOPBACK, port), timeout=5) as viewer:
        yield viewer
    ends.close()


def read(viewer: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := viewer.recv(count - len(data))):
        data += more
    return data


@pytest.mark.parametrize("version", [3, 7, 8])
def test_a_viewer_is_shown_a_screen(version: int) -> None:
    with connected(black_screen("guest \u00fc")) as viewer:
        assert read(viewer, 12) == b"RFB 003.008\n"
        viewer.sendall(b"RFB 003.00%d\n" % version)
        if version == 3:
            assert read(viewer, 4) == struct.pack(">I", 1)
        else:
            assert read(viewer, 2) == bytes([1, 1])
            viewer.sendall(bytes([1]))
        if version == 8:
            assert read(viewer, 4) == bytes(4)
        viewer.sendall(bytes([1]))
        width, height = struct.unpack(">HH", read(viewer, 4))
        read(viewer, 16)
        (length,) = struct.unpack(">I", read(viewer, 4))
        assert read(viewer, length).decode() == "guest \u00fc"
        viewer.sendall(struct.pack(">BxHii", 2, 2, 0, 1))
        viewer.sendall(struct.pack(">BB2xI", 4, 1, 13) + struct.pack(">BBHH", 5, 0, 1, 1))
        viewer.sendall(struct.pack(">B3xI", 6, 5) + b"words")
        viewer.sendall(struct.pack(">BBHHHH", 3, 0, width - 2, height - 3, 100, 100))
        assert read(viewer, 4) == struct.pack(">BxH", 0, 1)
        assert struct.unpack(">HHHHi", read(viewer, 12)) == (width - 2, height - 3, 2, 3, 0)
        assert read(viewer, 2 * 3 * 4) == bytes(24)
        viewer.sendall(struct.pack(">B3xBBBBHHHBBB3x", 0, 16, 16, 0, 1, 31, 63, 31, 11, 5, 0))
        viewer.sendall(struct.pack(">BBHHHH", 3, 1, 0, 0, width, height))  # nothing is new
        viewer.sendall(struct.pack(">BBHHHH", 3, 0, width + 1, 0, 5, 1) + struct.pack(">BBHHHH", 3, 0, 0, 0, 5, 1))
        assert struct.unpack(">4xHHHHi", read(viewer, 16))[2:4] == (0, 1)
        read(viewer, 16)
        assert read(viewer, 10) == bytes(10)
        viewer.sendall(bytes([99]))
        assert read(viewer, 1) == b""


def test_a_terminal_shows_what_the_guest_has_written() -> None:
    with connected(serial_port(lambda: "booted\nlogin:\n")) as terminal:
        assert read(terminal, 16) == b"booted\r\nlogin:\r\n"
        terminal.sendall(b"root\n")
        assert b"Simulated guests " in read(terminal, 17)
        terminal.sendall(bytes(100_000))
        with suppress(ConnectionResetError):
            assert len(read(terminal, 100)) < 100


def test_a_host_has_no_end_of_consoles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console_ends, "_MOST", 2)
    ends = ConsoleEnds()

    def port(name: str) -> int:
        return ends.port_of(name, LOOPBACK, black_screen(name), lambda: True)

    first, second = port("a"), port("b")
    assert (port("a"), port("b")) == (first, second)
    assert port("a") == first
    port("c")  # and b is forgotten, which was asked for longest ago
    assert port("a") == first
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, second), timeout=5)
    ends.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, first), timeout=5)


def test_an_address_that_is_not_ours() -> None:
    ends = ConsoleEnds()
    with pytest.raises(Exception, match="No socket can be opened for a console"):
        ends.port_of("a", "203.0.113.1", black_screen("a"), lambda: True)
    ends.close()
