# SPDX-License-Identifier: Apache-2.0
"""Bodies without a limit to their size, which the application reads while they arrive and writes while they leave.

A client may be as slow as it likes as long as something arrives within the idle time; how many such clients there are
at once is limited by the server.
"""

import select
from collections.abc import Iterable, Iterator

from kilonova.server.connection import Connection
from kilonova.server.request import Request

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class BodyStream:
    """``wsgi.input`` of a request whose body is still arriving. Raises: OSError when it does not."""

    def __init__(self, connection: Connection, request: Request) -> None:
        self._connection = connection
        self._request = request

    def read(self, size: int | None = -1) -> bytes:
        """Return ``size`` bytes, fewer only at the end; all of them when negative."""
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
        """Return something of the body, nothing at its end."""
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
                raise OSError("The body is not what HTTP allows.")
        else:
            raise ConnectionResetError("The client closed the connection in the middle of the body.")


def send_all(connection: Connection, parts: Iterable[bytes], *, chunked: bool) -> None:
    """Send an answer piece by piece. Raises: OSError when the client does not take it."""
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
    """Wait until everything is sent."""
    while not connection.is_closed and not connection.send_rest():
        wait_for(connection, select.POLLOUT, connection.host.limits.write_s)
    if connection.is_closed:
        raise ConnectionResetError("The client closed the connection.")


def wait_for(connection: Connection, event: int, seconds: float) -> None:
    poll = select.poll()
    poll.register(connection.sock.fileno(), event)
    if not poll.poll(seconds * 1000):
        raise TimeoutError("The client stopped in the middle of a body.")
