# SPDX-License-Identifier: Apache-2.0
"""The two ends of a console as byte streams: the WebSocket of a user, and the socket of a hypervisor.

Data for one end is buffered until that end accepts it; meanwhile nothing is read from the other end. An end that
accepts no data for a minute is disconnected.
"""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Coroutine
from typing import Any, Self

from websockets.asyncio.connection import Connection

#: Timeout of a write to either end, in seconds.
STALLED_S = 60.0
_PIECE = 1 << 16
_CONNECT_S = 10.0


class StalledError(Exception):
    """An end has accepted no data for ``STALLED_S`` seconds."""


class HostEndpoint:
    """A connection to the console port of a hypervisor."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, address: str, port: int) -> Self:
        """Connect to a console port. Raises: OSError, TimeoutError."""
        async with asyncio.timeout(_CONNECT_S):
            return cls(*await asyncio.open_connection(address, port, limit=_PIECE))

    async def read(self) -> bytes:
        """Return received bytes, b"" at the end of the stream. Raises: OSError."""
        return await self._reader.read(_PIECE)

    async def read_exactly(self, count: int) -> bytes:
        return await self._reader.readexactly(count)

    async def write(self, data: bytes) -> None:
        """Send bytes, and wait until the write buffer has room again. Raises: StalledError, OSError."""
        self._writer.write(data)
        await _in_time(self._writer.drain())

    def close(self) -> None:
        """Close the connection at once, and discard unsent data."""
        self._writer.transport.abort()


class ClientEndpoint:
    """The WebSocket of a user, as a byte stream without message boundaries."""

    def __init__(self, websocket: Connection) -> None:
        self._websocket = websocket
        self._left = b""

    async def while_it_is_there(self, work: Coroutine[Any, Any, None]) -> None:
        """Await ``work``, but cancel it and raise ConnectionClosed when the client disconnects."""
        doing, leaving = asyncio.create_task(work), asyncio.create_task(self._websocket.wait_closed())
        try:
            await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                raise self._websocket.close_exc
            doing.result()
        finally:
            doing.cancel()
            leaving.cancel()
            await asyncio.gather(doing, leaving, return_exceptions=True)

    async def read(self) -> bytes:
        """Return at least one received byte. Raises: ConnectionClosed at the end of the stream."""
        left, self._left = self._left, b""
        while not left:
            message = await self._websocket.recv()
            left = message.encode() if isinstance(message, str) else bytes(message)
        return left

    async def read_exactly(self, count: int) -> bytes:
        data = await self.read()
        while len(data) < count:
            data += await self.read()
        self._left = data[count:]
        return data[:count]

    async def write(self, data: bytes) -> None:
        """Send bytes as one message. Raises: StalledError, ConnectionClosed."""
        await _in_time(self._websocket.send(data))


async def _in_time(work: Awaitable[None]) -> None:
    try:
        async with asyncio.timeout(STALLED_S):
            await work
    except TimeoutError:
        raise StalledError from None
