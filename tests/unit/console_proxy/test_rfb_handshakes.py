# SPDX-License-Identifier: Apache-2.0
"""Hypervisors that want a password, or are none, and clients that are no viewers, are told so."""

import socket
import struct
from collections.abc import Callable

import pytest

from kilonova.console_proxy import listener
from kilonova.model.console import ConsoleProtocol
from support.console_hosts import TOKEN, hypervisor, proxy_before
from support.viewers import connect
from support.waiting import wait_until

URL = f"/?token={TOKEN}"
Talk = Callable[[socket.socket], None]


def says(*pieces: bytes, end: bool = False) -> Talk:
    """Return a hypervisor that says these, each after the next thing that it hears."""

    def talk(connection: socket.socket) -> None:
        for number, piece in enumerate(pieces):
            if number:
                connection.recv(64)
            connection.sendall(piece)
        if end:
            connection.close()

    return talk


def reason(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


@pytest.mark.parametrize(
    ("talk", "why"),
    [
        (says(b"RFB 003.008\n", bytes([1, 2])), "requires a password"),
        (says(b"RFB 003.008\n", bytes([2, 19, 2])), "requires a password"),
        (says(b"RFB 003.003\n"), "older than 3.8"),
        (says(b"RFB 003.008\n", b"\0" + reason(b"Too many \x1b[31m viewers")), "Too many ?[31m viewers"),
        (says(b"RFB 003.008\n", bytes([1, 1]), struct.pack(">I", 1) + reason(b"Go away")), "Go away"),
        (says(b"SSH-2.0-Open\n"), "not a VNC console"),
        (says(b"RFB 003.0", end=True), "The console has ended."),
    ],
)
def test_hypervisors_without_a_console_for_everybody(talk: Talk, why: str) -> None:
    with hypervisor(talk) as port, proxy_before(port, ConsoleProtocol.VNC) as (_, own):
        viewer = connect(own, URL)
        code, told = viewer.end()
        assert (code, why in told) == (1011, True), told
        viewer.close()


def test_a_hypervisor_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_HANDSHAKE_S", 0.2)
    with hypervisor(lambda _: None) as port, proxy_before(port, ConsoleProtocol.VNC) as (_, own):
        viewer = connect(own, URL)
        assert viewer.end() == (1011, "The VNC handshake timed out.")
        viewer.close()


def test_a_client_that_leaves_while_the_hypervisor_says_nothing() -> None:
    with hypervisor(lambda _: None) as port, proxy_before(port, ConsoleProtocol.VNC) as (proxy, own):
        viewer = connect(own, URL)
        wait_until(lambda: proxy.in_use == 1, "the console")
        viewer.close()
        wait_until(lambda: proxy.in_use == 0, "its end", at_most_s=listener._HANDSHAKE_S / 2)


GOOD = says(b"RFB 003.008\n", bytes([3, 19, 1, 2]), bytes(4))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([b"GET / HTTP/1.1"], "does not support the VNC protocol"),
        ([b"RFB 004.001\n"], "does not support the VNC protocol"),
        ([b"RFB 003.008\n", bytes([2])], "did not choose the security type None"),
    ],
)
def test_clients_that_are_no_viewers(said: list[bytes], why: str) -> None:
    with hypervisor(GOOD) as port, proxy_before(port, ConsoleProtocol.VNC) as (_, own):
        viewer = connect(own, URL)
        assert viewer.read(12) == b"RFB 003.008\n"
        for each in said:
            viewer.send(each)
        told = viewer.end()
        assert told[0] == 1011
        assert why in told[1]
        viewer.close()


def test_what_a_viewer_says_at_once_arrives() -> None:
    heard = []

    def talk(connection: socket.socket) -> None:
        GOOD(connection)
        heard.append(connection.recv(64))
        connection.close()

    with hypervisor(talk) as port, proxy_before(port, ConsoleProtocol.VNC) as (_, own):
        viewer = connect(own, URL)
        viewer.send(b"RFB 003.008\n\x01rest of it")
        viewer.read(12 + 2 + 4)
        assert viewer.end()[0] == 1000
        viewer.close()
    assert heard == [b"rest of it"]
