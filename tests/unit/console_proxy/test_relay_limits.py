# SPDX-License-Identifier: Apache-2.0
"""Clients and hypervisors that take nothing, say nothing, or say too much cost a bounded amount, for a bounded time."""

import socket
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from kilonova.console_proxy import endpoints
from kilonova.console_proxy.proxy import ProxyLimits
from support.console_hosts import TOKEN, echo, hypervisor, proxy_before
from support.viewers import connect
from support.waiting import wait_until

URL = f"/?token={TOKEN}"
#: More than a console keeps itself of what nobody reads.
OWN_BUFFERS = 1 << 20


class Flood:
    """A guest that writes as much as is taken."""

    def __init__(self) -> None:
        self.written = 0

    def __call__(self, connection: socket.socket) -> None:
        while True:
            connection.sendall(bytes(65536))
            self.written += 65536


def silence(_: socket.socket) -> None:
    pass


def small_buffer() -> dict[str, Any]:
    return {"sockopt": [(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)]}


def kept_by_system() -> int:
    """Return how much two connections, one behind the other, keep at most without anybody reading. Unit: bytes."""
    sent, received = (
        int(Path(f"/proc/sys/net/ipv4/{name}").read_text().split()[2]) for name in ("tcp_wmem", "tcp_rmem")
    )
    return 2 * (sent + received)


def settled(flood: Flood) -> int:
    """Return how much has been written once no more is."""
    wait_until(lambda: flood.written, "the first of it")
    seen = -1
    while flood.written != seen:
        seen = flood.written
        time.sleep(0.05)
    return seen


def test_a_client_that_does_not_read_holds_its_guest_up_and_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "STALLED_S", 0.3)
    flood = Flood()
    with hypervisor(flood) as port, proxy_before(port) as (proxy, own):
        viewer = connect(own, URL, **small_buffer())
        wait_until(lambda: proxy.in_use == 1, "the console")
        assert 0 < settled(flood) < OWN_BUFFERS + kept_by_system()
        wait_until(lambda: proxy.in_use == 0, "that it is given up")
        viewer.websocket.shutdown()


def test_a_slow_client_gets_everything() -> None:
    flood = Flood()
    with hypervisor(flood) as port, proxy_before(port) as (_, own):
        viewer = connect(own, URL, **small_buffer())
        before = settled(flood)
        for _ in range(before >> 16):
            assert viewer.read(1 << 16) == bytes(1 << 16)
        wait_until(lambda: flood.written > before, "more")
        viewer.websocket.shutdown()


def test_a_guest_that_does_not_read_holds_its_client_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "STALLED_S", 0.3)
    with hypervisor(silence) as port, proxy_before(port) as (proxy, own):
        viewer = connect(own, URL)
        viewer.websocket.sock.settimeout(0.2)
        sent = 0
        with pytest.raises(Exception, match=r"timed out|Broken pipe|reset"):
            while sent < 64 << 20:
                viewer.send(bytes(65536))
                sent += 65536
        wait_until(lambda: proxy.in_use == 0, "that it is given up")
        viewer.websocket.shutdown()


def test_a_console_that_nobody_uses_is_closed() -> None:
    with hypervisor(echo) as port, proxy_before(port, limits=ProxyLimits(idle_s=0.8)) as (_, own):
        viewer = connect(own, URL)
        began = time.monotonic()
        for _ in range(4):
            time.sleep(0.25)
            viewer.send(b"x")
            assert viewer.read(1) == b"x"
        assert viewer.end() == (1008, "The console was idle for too long.")
        assert time.monotonic() - began > 1.7
        viewer.close()


def test_a_message_that_is_too_long_ends_the_console() -> None:
    with hypervisor(echo) as port, proxy_before(port) as (_, own):
        viewer = connect(own, URL)
        viewer.send(bytes(1 << 20))
        assert viewer.read(1 << 20) == bytes(1 << 20)
        viewer.websocket.send_frame(_head_of(1 << 40))
        assert viewer.end()[0] == 1009
        viewer.close()


def _head_of(length: int) -> Any:
    class Head:
        opcode = 2

        def format(self) -> bytes:
            return bytes([0x82, 0xFF]) + struct.pack(">Q", length) + bytes(4)

    return Head()


def test_a_console_that_cannot_be_reached() -> None:
    with hypervisor(echo) as port:
        pass
    with proxy_before(port) as (_, own):
        viewer = connect(own, URL)
        assert viewer.end() == (1011, "The console cannot be reached.")
        viewer.close()
