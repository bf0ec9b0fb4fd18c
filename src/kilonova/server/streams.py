# SPDX-License-Identifier: Apache-2.0
"""Streamed bodies of unlimited size: read by the application while they arrive, or written while they are sent.

A client may be slow, as long as some data arrives within the idle timeout; the server limits the number of concurrent
streams.
"""

import select
from collections.abc import Iterable, Iterator

from kilonova.server.connection import Connection
from kilonova.server.request import Request

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class BodyStream:
    """The ``wsgi.input`` of a request whose body is still arriving. Raises: OSError, if the body stops arriving."""

    def __init__(self, connection: Connection, request: Request) -> None:
        self._connection = connection
        self._request = request

    def read(self, size: int | None = -1) -> bytes:
        """Return ``size`` bytes, or fewer at the end of the body. A negative size or None: all remaining bytes."""
        parts: list[bytes] = []
        wanted = size if size is not None and size >= 0 else None
        while (wanted is None or wanted > 0) and (part := self._take(wanted)):
            parts.append(part)
            wanted = None if wanted is None else wanted - len(part)
        return b"".join(parts)

    def readline(self, size: int | None = -1) -> bytes:
        """Return the next line."""
        line = bytearray()
        while size is None or size < 0 or len(line) < size:
            byte = self._take(1)
            line += byte
            if byte in {b"", b"\n"}:
                break
        return bytes(line)

    def readlines(self, hint: int = -1) -> list[bytes]:
        del hint
        return list(self)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")

    def _take(self, most: int | None) -> bytes:
        """Return at most ``most`` bytes of the body, as soon as any have arrived; b"" at the end of the body."""
        request = self._request
        while not request.body and not request.complete:
            self._receive()
        taken = bytes(request.body[:most])
        request.body = request.body[len(taken) :]
        return taken

    def _receive(self) -> None:
        connection, request = self._connection, self._request
        if request.expects_continue:
            request.expects_continue = False
            connection.send(_CONTINUE)
        data = connection.receive()
        if data is None:
            wait_for(connection, select.POLLIN, connection.host.limits.idle_s)
        elif data:
            connection.feed(data)
            if connection.refused is not None:
                raise OSError("The body is malformed.")
        else:
            raise ConnectionResetError("The client closed the connection in the middle of the body.")


def send_all(connection: Connection, parts: Iterable[bytes], *, chunked: bool) -> None:
    """Send an answer piece by piece. Raises: OSError, if the client stops reading or closes the connection."""
    for part in parts:
        if part:
            if chunked:
                connection.send(b"%x\r\n" % len(part) + part + b"\r\n")
            else:
                connection.send(part)
            drain(connection)
    if chunked:
        connection.send(b"0\r\n\r\n")
        drain(connection)


def drain(connection: Connection) -> None:
    """Wait until all output has been sent. Raises: OSError, if the client stops reading or closes the connection."""
    while not connection.is_closed and not connection.send_rest():
        wait_for(connection, select.POLLOUT, connection.host.limits.write_s)
    if connection.is_closed:
        raise ConnectionResetError("The client closed the connection.")


def wait_for(connection: Connection, event: int, seconds: float) -> None:
    poll = select.poll()
    poll.register(connection.sock.fileno(), event)
    if not poll.poll(seconds * 1000):
        raise TimeoutError("The client stopped in the middle of a body.")
