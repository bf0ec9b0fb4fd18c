# SPDX-License-Identifier: Apache-2.0
"""Connections to the console proxy without a complete request: their number and their time are limited."""

import socket

import pytest

from kilonova.console_proxy import listener
from kilonova.console_proxy.proxy import ProxyLimits
from support.console_hosts import TOKEN, echo, hypervisor, proxy_before
from support.viewers import refused
from support.waiting import wait_until

URL = f"/?token={TOKEN}"


def was_cut_off(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_connections_that_ask_for_nothing_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_MORE_SOCKETS", 5)
    with hypervisor(echo) as port, proxy_before(port, limits=ProxyLimits(connections=1)) as (_, own):
        silent = [socket.create_connection(("127.0.0.1", own), timeout=5) for _ in range(6)]
        one_more = socket.create_connection(("127.0.0.1", own), timeout=5)
        assert was_cut_off(one_more)
        for each in (*silent, one_more):
            each.close()
        wait_until(lambda: refused(own, URL) == 101, "room")


def test_requests_that_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_OPEN_S", 0.5)
    with hypervisor(echo) as port, proxy_before(port) as (_, own):
        slow = socket.create_connection(("127.0.0.1", own), timeout=5)
        slow.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        assert was_cut_off(slow)
        slow.close()
