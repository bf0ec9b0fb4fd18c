# SPDX-License-Identifier: Apache-2.0
"""Listener for consoles of one protocol at one address, and the handling of its connections."""

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from kilonova.console_proxy import rfb
from kilonova.console_proxy.endpoints import ClientEndpoint, HostEndpoint, StalledError
from kilonova.console_proxy.limits import ConsoleLimits
from kilonova.console_proxy.relay import STALLED, USER_LEFT, Ended, relay
from kilonova.console_proxy.token_check import TokenCheck, TokenDesk, address_of
from kilonova.console_proxy.tokens import Console
from kilonova.errors import Unavailable
from kilonova.model.console import ConsoleProtocol
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
_BINARY = Subprotocol("binary")
#: Timeout of the opening handshake in seconds, including the check of the token.
_OPEN_S = 30.0
_CLOSE_S = 5.0
#: Interval and timeout of pings in seconds; the interval is shorter than the usual read timeout of a reverse proxy such
#: as nginx.
_PING_S, _PONG_S = 30.0, 60.0
_HANDSHAKE_S = 15.0
_LARGEST_MESSAGE = 1 << 20
_MESSAGES_WAITING = 4
#: Maximum number of connections that are not consoles: connections in their handshake, and downloads of files.
_MORE_SOCKETS = 256
_TRY_LATER, _FAILED, _NOT_ALLOWED = 1013, 1011, 1008


class Sockets:
    """Counter of all connections to the proxy, with their limit.

    ``consoles``: maximum number of concurrent consoles.
    """

    def __init__(self, consoles: int) -> None:
        self.limit = consoles + _MORE_SOCKETS
        self.count = 0


class ConsoleConnection(ServerConnection):
    """A connection from a client to the proxy.

    ``opened``: (token, console), or None until the token has been checked.
    """

    def __init__(self, *arguments: Any, sockets: Sockets, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.opened: tuple[str, Console] | None = None
        self._sockets = sockets

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._sockets.count += 1
        if self._sockets.count > self._sockets.limit:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._sockets.count -= 1
        super().connection_lost(exc)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Serves consoles of one protocol at one address.

    ``idle_s``: seconds after which an idle console is closed; None: never. ``recheck_s``: interval in seconds at which
    the tokens of open consoles are checked again; None: never.
    """

    protocol: ConsoleProtocol
    door: TokenCheck
    desk: TokenDesk
    seats: ConsoleLimits
    sockets: Sockets
    idle_s: float | None
    recheck_s: float | None

    async def serve(self, listening: socket.socket, tls: ssl.SSLContext | None) -> Server:
        return await serve(
            self._use,
            sock=listening,
            ssl=tls,
            process_request=self._open,
            select_subprotocol=_subprotocol,
            compression=None,  # WebSocket compression is useless, because VNC compresses its data itself
            server_header="kilonova",
            open_timeout=_OPEN_S,
            close_timeout=_CLOSE_S,
            ping_interval=_PING_S,
            ping_timeout=_PONG_S,
            max_size=_LARGEST_MESSAGE,
            max_queue=_MESSAGES_WAITING,
            create_connection=partial(ConsoleConnection, sockets=self.sockets),  # type: ignore[arg-type]  # or a factory
        )

    async def _open(self, websocket: ServerConnection, request: Request) -> Response | None:
        assert isinstance(websocket, ConsoleConnection)
        answer = await self.door.answer(request, address_of(websocket))
        if isinstance(answer, Response):
            return answer
        websocket.opened = answer
        return None

    async def _use(self, websocket: ServerConnection) -> None:
        assert isinstance(websocket, ConsoleConnection)
        assert websocket.opened is not None
        token, console = websocket.opened
        client, server, began = address_of(websocket), console.instance_uuid, time.monotonic()
        with self.seats.take(server) as seated:
            if not seated:
                await _leave(websocket, (_TRY_LATER, "Too many consoles are in use."))
                return
            LOG.info("%s: opened the %s console of server %s", client, self.protocol.value, server)
            ended = await self._talk(ClientEndpoint(websocket), token, console)
        await _leave(websocket, ended)
        why = ended[1] or "the client has left"
        LOG.info("%s: end of the console of server %s after %.0f s: %s", client, server, time.monotonic() - began, why)

    async def _talk(self, client: ClientEndpoint, token: str, console: Console) -> Ended:
        try:
            host = await HostEndpoint.connect(console.address, console.port)
        except (OSError, TimeoutError):
            return _FAILED, "The console cannot be reached."
        try:
            try:
                async with asyncio.timeout(_HANDSHAKE_S):
                    await client.while_it_is_there(self._shake_hands(client, host))
            except Unavailable as error:
                return _FAILED, error.message
            except TimeoutError:
                return _FAILED, "The VNC handshake timed out."
            except ConnectionClosed:
                return USER_LEFT
            except StalledError:
                return STALLED
            except (OSError, EOFError):
                return _FAILED, "The console has ended."
            with self._watching(token) as watch:
                return await relay(client, host, self.idle_s, watch, self._is_wrong)
        finally:
            host.close()

    async def _shake_hands(self, client: ClientEndpoint, host: HostEndpoint) -> None:
        """For a VNC console, do the VNC handshakes with both ends.

        Raises: Unavailable, if an end does not support them.
        """
        if self.protocol is ConsoleProtocol.VNC:
            await rfb.enter(host)
            await rfb.welcome(client)

    def _is_wrong(self, said_first: bytes) -> bool:
        return self.protocol is ConsoleProtocol.SERIAL and rfb.is_greeting(said_first)

    @contextlib.contextmanager
    def _watching(self, token: str) -> Iterator[Sequence[asyncio.Task[Ended]]]:
        if self.recheck_s is None:
            yield ()
            return
        watch = asyncio.create_task(self._until_it_expires(token, self.recheck_s))
        try:
            yield (watch,)
        finally:
            watch.cancel()

    async def _until_it_expires(self, token: str, every_s: float) -> Ended:
        while True:
            await asyncio.sleep(every_s)
            with contextlib.suppress(Unavailable):  # keep the console open while tokens cannot be checked
                if await self.desk.find(token) is None:
                    return _NOT_ALLOWED, "The token is no longer valid."


def _subprotocol(_: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    return _BINARY if _BINARY in offered else None


async def _leave(websocket: ServerConnection, ended: Ended) -> None:
    """Close a connection with a closing handshake, or abort it if one of its ends has stalled."""
    if ended is STALLED:
        websocket.transport.abort()
        return
    try:
        async with asyncio.timeout(2 * _CLOSE_S):
            await websocket.close(*ended)
    except TimeoutError:
        websocket.transport.abort()
