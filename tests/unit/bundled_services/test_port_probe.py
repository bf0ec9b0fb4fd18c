# SPDX-License-Identifier: Apache-2.0
"""A probe of a port without a server never takes the port away from the server."""

import socket

import pytest

from kilonova.bundled_services.free_ports import LOOPBACK
from kilonova.bundled_services.port_probe import connect, is_listening
from support.narrow_sockets import ephemeral_port, narrow_sockets


def test_a_plain_connection_to_a_free_ephemeral_port_reaches_itself_and_keeps_the_port_taken() -> None:
    """The fault that the probe avoids."""
    port = ephemeral_port()
    with narrow_sockets(port, port)() as client:
        client.connect((LOOPBACK, port))
        assert client.getsockname() == client.getpeername()
    with socket.socket() as server, pytest.raises(OSError, match="Address already in use"):
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((LOOPBACK, port))


def test_a_probe_of_a_free_ephemeral_port_does_not_reach_itself_and_leaves_the_port_to_the_server() -> None:
    port = ephemeral_port()
    sockets = narrow_sockets(port - 1, port)  # bind() prefers the second one of two
    made: list[socket.socket] = []

    def new_socket(*kinds: int) -> socket.socket:
        made.append(sockets(*kinds))
        if len(made) == 2:
            assert made[0].getsockname()[1] == port
            socket.create_server((LOOPBACK, port)).close()  # a server may start just now
        return made[-1]

    with pytest.raises(ConnectionRefusedError):
        connect(LOOPBACK, port, 5, new_socket)
    assert len(made) == 2
    socket.create_server((LOOPBACK, port)).close()


@pytest.mark.parametrize("host", [LOOPBACK, "localhost"])
def test_a_server_is_found_and_its_absence_is(host: str) -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        assert is_listening(host, port, 5)
    assert not is_listening(host, port, 5)
