# SPDX-License-Identifier: Apache-2.0
"""Scripted consoles of hypervisors, and a console proxy in front of them."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kilonova.console_proxy.proxy import ConsoleProxy, ProxyLimits
from kilonova.console_proxy.tokens import Console
from kilonova.model.console import ConsoleProtocol
from support.viewers import listening

TOKEN = "0123456789"
Talk = Callable[[socket.socket], None]


class OneConsole:
    """Token lookup that maps every token to the console at one port."""

    def __init__(self, port: int) -> None:
        self._console = Console("a-server", "127.0.0.1", port)

    def find(self, token: str) -> Console | None:
        return self._console if token == TOKEN else None


def echo(connection: socket.socket) -> None:
    """Dialogue of a hypervisor that sends everything back."""
    while data := connection.recv(65536):
        connection.sendall(data)


@contextmanager
def hypervisor(talk: Talk) -> Iterator[int]:
    """Run a scripted dialogue with every client of a port. The connection stays open when the dialogue returns."""
    listener, connections = socket.create_server(("127.0.0.1", 0)), []

    def run() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connections.append(connection)
                threading.Thread(target=quietly, args=(connection,), daemon=True).start()

    def quietly(connection: socket.socket) -> None:
        with suppress(OSError):
            talk(connection)

    threading.Thread(target=run, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        for each in (listener, *connections):
            each.close()


@contextmanager
def proxy_before(
    port: int,
    protocol: ConsoleProtocol = ConsoleProtocol.SERIAL,
    limits: ProxyLimits | None = None,
    web: Path | None = None,
    **options: Any,
) -> Iterator[tuple[ConsoleProxy, int]]:
    """Run a console proxy, and yield it and its port."""
    own = listening()
    proxy = ConsoleProxy(OneConsole(port), [(protocol, own)], limits or ProxyLimits(), web=web, **options)
    proxy.start()
    try:
        yield proxy, own.getsockname()[1]
    finally:
        proxy.stop()
