# SPDX-License-Identifier: Apache-2.0
"""Ports for servers that start a little later are nobody's, and no connection that goes out gets one meanwhile."""

import socket
from pathlib import Path

from kilonova.bundled_services.free_ports import LOOPBACK, can_listen, free_port, free_ports


def test_they_are_different_and_can_be_listened_at() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == 50
    for port in ports:
        socket.create_server((LOOPBACK, port)).close()


def test_connections_that_go_out_do_not_get_them() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(port < first for port in free_ports(50))


def test_one_that_somebody_has_is_none_of_them() -> None:
    port = free_port()
    assert can_listen(port)
    with socket.create_server((LOOPBACK, port)):
        assert not can_listen(port)
