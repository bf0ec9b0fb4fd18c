# SPDX-License-Identifier: Apache-2.0
"""Authorization of console connections, before their upgrade to WebSocket.

::

    no upgrade header                     ── a file of noVNC
    opened by a page of another site      ── 403
    without a valid token                 ── 403
    too many consoles in use, or the compute API does not answer ── 503
"""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from kilonova.console_proxy.limits import ConsoleLimits
from kilonova.console_proxy.opening import may_come_from, token_of
from kilonova.console_proxy.tokens import Console, Tokens
from kilonova.console_proxy.web_files import WebFiles, response
from kilonova.errors import Unavailable

LOG = logging.getLogger(__name__)
#: Maximum number of concurrent token lookups; and maximum number of requests whose lookup is running or queued.
_AT_A_TIME = 8
_WAITING = 64


class TokenDesk:
    """Asynchronous lookup of tokens. It runs in threads, because the client of the compute API blocks."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._threads = ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="tokens")
        self._waiting = 0

    async def find(self, token: str) -> Console | None:
        """Return the console of a token, None if the token is not valid. Raises: Unavailable."""
        if self._waiting >= _WAITING:
            raise Unavailable("Too many token lookups are waiting.")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._tokens.find, token)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class TokenCheck:
    """Authorization of requests to one listener. ``files``: answers requests that open no console."""

    def __init__(
        self, desk: TokenDesk, seats: ConsoleLimits, files: WebFiles, allowed_origins: Sequence[str], *, over_tls: bool
    ) -> None:
        self._desk = desk
        self._seats = seats
        self._files = files
        self._allowed_origins = allowed_origins
        self._over_tls = over_tls

    async def answer(self, request: Request, client: str) -> Response | tuple[str, Console]:
        """Return (token, console) if the request may open a console; otherwise return the HTTP response to send."""
        headers = request.headers
        if "websocket" not in headers.get("Upgrade", "").lower():
            return self._files.answer(request)
        over_tls = self._over_tls or headers.get("X-Forwarded-Proto", "").lower() == "https"
        hosts = headers.get_all("Host")
        host = hosts[0] if len(hosts) == 1 else None
        if not may_come_from(headers.get_all("Origin"), host, self._allowed_origins, over_tls=over_tls):
            LOG.warning(
                "%s: console refused: the request is from a page of another site: %.200r", client, headers.get("Origin")
            )
            return response(HTTPStatus.FORBIDDEN)
        token = token_of(request.path, headers.get_all("Cookie"))
        try:
            console = None if token is None else await self._desk.find(token)
        except Unavailable as error:
            LOG.warning("%s: console refused: %s", client, error.message)
            return response(HTTPStatus.SERVICE_UNAVAILABLE)
        if token is None or console is None:
            LOG.info(
                "%s: console refused: %s", client, "there is no token" if token is None else "the token is not valid"
            )
            return response(HTTPStatus.FORBIDDEN)
        if not self._seats.is_free(console.instance_uuid):
            LOG.warning("%s: console of server %s refused: too many consoles are in use", client, console.instance_uuid)
            return response(HTTPStatus.SERVICE_UNAVAILABLE)
        return token, console


def address_of(connection: ServerConnection) -> str:
    """Return the address of a connection's client, for the log."""
    peer = connection.remote_address
    return str(peer[0]) if peer else "unknown"
