# SPDX-License-Identifier: Apache-2.0
"""The console proxy: all its listeners on an event loop in one thread."""

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import Sequence
from pathlib import Path

from websockets.asyncio.server import Server

from kilonova.console_proxy.limits import ConsoleLimits
from kilonova.console_proxy.listener import Listener, Sockets
from kilonova.console_proxy.token_check import TokenCheck, TokenDesk
from kilonova.console_proxy.tokens import Tokens
from kilonova.console_proxy.web_files import WebFiles
from kilonova.model.console import ConsoleProtocol
from kilonova.process_parts import PartOf, ProcessParts
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
_STOP_S = 3.0
_START_S = 30.0


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """Limits of a proxy.

    ``connections``, ``of_one_server``: maximum number of concurrent consoles, in total and of one server. ``idle_s``,
    ``recheck_s``: as in :class:`Listener`.
    """

    connections: int = 500
    of_one_server: int = 10
    idle_s: float | None = 3600.0
    recheck_s: float | None = None


class ConsoleProxy:
    """Serves consoles. ``sockets``: protocols with their listening sockets; ``web``: folder of noVNC.

    ``web`` None: no files are served; ``tls`` None: connections are not encrypted.
    """

    def __init__(
        self,
        tokens: Tokens,
        sockets: Sequence[tuple[ConsoleProtocol, socket.socket]],
        limits: ProxyLimits,
        *,
        web: Path | None,
        allowed_origins: Sequence[str] = (),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._listening = tuple(sockets)
        self._tls = tls
        self._desk = TokenDesk(tokens)
        self._seats = ConsoleLimits(limits.connections, limits.of_one_server)
        counted = Sockets(limits.connections)
        files = WebFiles(web)
        self._missing = None if web is None or files.are_there else web
        self._listeners = [
            Listener(
                protocol=protocol,
                door=TokenCheck(
                    self._desk,
                    self._seats,
                    files if protocol is ConsoleProtocol.VNC else WebFiles(None),
                    allowed_origins,
                    over_tls=tls is not None,
                ),
                desk=self._desk,
                seats=self._seats,
                sockets=counted,
                idle_s=limits.idle_s,
                recheck_s=limits.recheck_s,
            )
            for protocol, _ in sockets
        ]
        self._loop = asyncio.new_event_loop()
        self._servers: list[Server] = []
        self._parts = ProcessParts()
        self._thread = threading.Thread(target=self._loop.run_forever, name="console-proxy", daemon=True)

    @property
    def in_use(self) -> int:
        """Number of consoles in use."""
        return self._seats.taken

    def start(self) -> None:
        with self._parts.stopped_on_failure():
            self._parts.start(PartOf("event loop", self._thread.start, self._end_loop))
            self._parts.opened("token checks", self._desk.close)
            self._parts.start(PartOf("listeners", self._listen, self._hang_up))

    def stop(self) -> None:
        """Close all consoles and the listeners. A second call is no error."""
        self._parts.stop()

    def _listen(self) -> None:
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(_START_S)

    def _hang_up(self) -> None:
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(2 * _STOP_S)

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_S)
        if not self._thread.is_alive():
            self._loop.close()

    async def _start(self) -> None:
        for listener, (protocol, listening) in zip(self._listeners, self._listening, strict=True):
            self._servers.append(await listener.serve(listening, self._tls))
            host, port = listening.getsockname()[:2]
            LOG.info("Serving %s consoles at %s port %d", protocol.value, host, port)
            if protocol is ConsoleProtocol.VNC and self._missing is not None:
                LOG.warning("noVNC is missing in %s: browsers get a page with instructions", self._missing)

    async def _stop(self) -> None:
        for server in self._servers:
            server.close(reason="The console proxy is stopping.")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_S):
                await asyncio.gather(*(server.wait_closed() for server in self._servers))
        for server in self._servers:
            for connection in list(server.all_connections):
                connection.transport.abort()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
