# SPDX-License-Identifier: Apache-2.0
"""Console endpoints of simulated guests: TCP sockets for VNC or for the bytes of a serial port.

One thread serves all consoles of a host; it starts with the first console request. As with a real hypervisor, the port
identifies the guest.
"""

import asyncio
import contextlib
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from concurrent.futures import Future
from typing import Any

from kilonova.errors import DriverError

#: Maximum number of listening sockets of one host; the least recently requested socket is closed first.
_MOST = 64
#: Maximum number of connections to consoles of one host.
_MOST_CONNECTIONS = 64
#: Lifetime of a connection in seconds; afterwards the client has to open the console again.
_LONGEST_S = 3600.0
_WAIT_S = 5.0
#: Interval in seconds at which a connection checks whether its guest still runs.
_LOOK_EVERY_S = 0.5
Talk = Callable[[StreamReader, StreamWriter], Awaitable[None]]


class ConsoleEnds:
    """The listening sockets of one host, one for each console in use."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._servers: dict[Hashable, asyncio.Server] = {}
        self._connections: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="console-ends", daemon=True)
        self._thread.start()

    def port_of(self, console: Hashable, address: str, talk: Talk, is_there: Callable[[], bool]) -> int:
        """Return the port of a console, after starting to listen on it if necessary.

        ``talk``: serves a connection, which is closed as soon as ``is_there`` returns False.
        Raises: DriverError if no socket can be opened.
        """
        with self._lock:
            server = self._servers.pop(console, None)
            if server is None:
                server = self._wait_for(asyncio.start_server(self._serving(talk, is_there), address, 0, limit=4096))
                while len(self._servers) >= _MOST:
                    oldest = self._servers.pop(next(iter(self._servers)))
                    self._wait_for(_close(oldest))
            self._servers[console] = server
            return int(server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Close all connections and stop listening."""
        with self._lock, contextlib.suppress(DriverError):
            self._wait_for(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_WAIT_S)
        if not self._thread.is_alive():
            self._loop.close()

    async def _end(self) -> None:
        for server in self._servers.values():
            await _close(server)
        self._servers.clear()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _serving(self, talk: Talk, is_there: Callable[[], bool]) -> Talk:
        async def serve(reader: StreamReader, writer: StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections.add(task)
            try:
                if len(self._connections) <= _MOST_CONNECTIONS and is_there():
                    await _while_it_is_there(talk(reader, writer), is_there)
            except (OSError, EOFError, ValueError, DriverError, asyncio.CancelledError):
                pass  # the client or the guest has gone, the client sent too long a line, or the process is stopping
            finally:
                self._connections.discard(task)
                writer.close()

        return serve

    def _wait_for(self, work: Coroutine[Any, Any, Any]) -> Any:
        waiting: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return waiting.result(_WAIT_S)
        except (OSError, TimeoutError) as error:
            waiting.cancel()
            raise DriverError(f"No socket can be opened for a console: {error}.") from error


async def _close(server: asyncio.Server) -> None:
    """Stop listening; open connections continue."""
    server.close()


async def _while_it_is_there(talk: Awaitable[None], is_there: Callable[[], bool]) -> None:
    """Serve a connection while its guest runs; errors of ``talk`` end the connection.

    Raises: DriverError if the guest is gone.
    """
    talking = asyncio.ensure_future(talk)
    ends_at = asyncio.get_running_loop().time() + _LONGEST_S
    try:
        while not talking.done() and is_there() and asyncio.get_running_loop().time() < ends_at:
            await asyncio.wait({talking}, timeout=_LOOK_EVERY_S)
    finally:
        talking.cancel()
        await asyncio.gather(talking, return_exceptions=True)


def serial_port(output: Callable[[], str]) -> Talk:
    """Return the handler of a serial console: it sends the console log, then a fixed reply to each input line."""

    async def talk(reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(_terminal(output()))
        while await reader.readline():
            writer.write(_terminal("Simulated guests accept no login.\nlogin: "))
            await writer.drain()

    return talk


def _terminal(text: str) -> bytes:
    return text.replace("\n", "\r\n").encode()
