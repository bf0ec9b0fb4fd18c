# SPDX-License-Identifier: Apache-2.0
"""Console endpoints of simulated guests: terminals, the limit of their number, and addresses."""

import socket
from contextlib import suppress

import pytest

from kilonova.compute.virt.fake import console_ends
from kilonova.compute.virt.fake.console_ends import ConsoleEnds, serial_port
from kilonova.compute.virt.fake.rfb import black_screen
from support.console_ends import connected, read

LOOPBACK = "127.0.0.1"


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
