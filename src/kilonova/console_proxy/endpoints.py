# SPDX-License-Identifier: Apache-2.0
"""Both sides of a console as streams of bytes: the WebSocket of a user, and the socket of a hypervisor.

Whoever takes nothing for a minute is given up: what it has not taken is kept here, and more is read of the other side
only once it is gone.
"""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Coroutine
from typing import Any, Self

from websockets.asyncio.connection import Connection

#: How long each side may take to take what there is for it.
STALLED_S = 60.0
_PIECE = 1 << 16
_CONNECT_S = 10.0


class StalledError(Exception):
    """A side takes nothing any more."""


class HostEndpoint:
    """A connection to a hypervisor."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, address: str, port: int) -> Self:
        """Raises: OSError, TimeoutError."""
        async with asyncio.timeout(_CONNECT_S):
            return cls(*await asyncio.open_connection(address, port, limit=_PIECE))

    async def read(self) -> bytes:
        """Return what there is, nothing at the end. Raises: OSError."""
        return await self._reader.read(_PIECE)

    async def read_exactly(self, count: int) -> bytes:
        return await self._reader.readexactly(count)

    async def write(self, data: bytes) -> None:
        """Raises: StalledError, OSError."""
        self._writer.write(data)
        await _in_time(self._writer.drain())

    def close(self) -> None:
        """Leave at once, whatever has not been taken."""
        self._writer.transport.abort()


class ClientEndpoint:
    """The WebSocket of a user. What comes over it is a stream, whatever messages it comes in."""

    def __init__(self, websocket: Connection) -> None:
        self._websocket = websocket
        self._left = b""

    async def while_it_is_there(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that may not hear of the client for long. Raises: ConnectionClosed, when the client leaves."""
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
        """Return what there is. Raises: ConnectionClosed at the end."""
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
        """Raises: StalledError, ConnectionClosed."""
        await _in_time(self._websocket.send(data))


async def _in_time(work: Awaitable[None]) -> None:
    try:
        async with asyncio.timeout(STALLED_S):
            await work
    except TimeoutError:
        raise StalledError from None
