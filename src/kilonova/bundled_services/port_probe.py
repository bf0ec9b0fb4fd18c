# SPDX-License-Identifier: Apache-2.0
"""Connections to a local port whose server may still be starting."""

import contextlib
import socket
from collections.abc import Callable


def connect(
    host: str, port: int, timeout_s: float, new_socket: Callable[..., socket.socket] = socket.socket
) -> socket.socket:
    """Connect to the server on a port. Raises: OSError.

    A connection to a port without a server can become a connection to itself: the kernel may choose that very port as
    the source port, and TCP allows both ends of a connection to open it at the same time. The server could then not
    bind the port until a minute after the end of the connection. So the client's socket is first bound to another port.
    """
    error = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        client = _with_source_port(new_socket, port, family, kind, protocol)
        try:
            client.settimeout(timeout_s)
            client.connect(address)
        except OSError as problem:
            client.close()
            error = problem
        else:
            return client
    raise error


def is_listening(host: str, port: int, timeout_s: float) -> bool:
    """Return whether a server accepts connections on a port."""
    with contextlib.suppress(OSError), connect(host, port, timeout_s):
        return True
    return False


def _with_source_port(new_socket: Callable[..., socket.socket], other_than: int, *kinds: int) -> socket.socket:
    client = _bound(new_socket(*kinds))
    if client.getsockname()[1] != other_than:
        return client
    with client:  # while this socket holds the server's port, the kernel chooses another port for the new socket
        return _bound(new_socket(*kinds))


def _bound(client: socket.socket) -> socket.socket:
    try:
        # without SO_REUSEADDR, a server could not bind the port while this socket has it
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        client.bind(("", 0))
    except OSError:
        client.close()
        raise
    return client
