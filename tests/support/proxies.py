# SPDX-License-Identifier: Apache-2.0
"""TCP proxy that breaks connections to a server at chosen moments."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

#: SO_LINGER value that closes a connection with a reset.
_RESET = struct.pack("ii", 1, 0)


class Proxy:
    """Forwards to ``port`` of loopback. ``cut``: when to break the next connection that sends COMMIT.

    ``"before"``: the server never receives the COMMIT. ``"after"``: the server commits, and its answer is dropped. Each
    setting breaks one connection and then returns to None. ``"for good"``: as ``"after"``, and no later connection gets
    through. ``is_black_hole``: while it is set, all data is dropped in both directions and no connection is closed.
    Between :meth:`stall` and :meth:`go_on` all data waits, as in a network partition that heals. ``refuses``: while it
    is set, new connections are reset.
    """

    def __init__(self, port: int) -> None:
        self.cut: str | None = None
        self.cuts = 0
        self.is_black_hole = False
        self.refuses = False
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._pairs: list[_Pair] = []
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # close() alone does not wake a blocked accept()
        self._listener.close()

    def drop(self) -> None:
        """Close every connection."""
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            pair.end()

    def stall(self) -> None:
        """Hold all data without closing connections."""
        self._goes_on.clear()

    def go_on(self) -> None:
        """Forward the held data and continue."""
        self._goes_on.set()

    def wait(self) -> None:
        """Block while the proxy is stalled."""
        self._goes_on.wait()

    def forget(self, pair: "_Pair") -> None:
        """Forget a closed connection, so that its sockets are closed."""
        with contextlib.suppress(ValueError):
            self._pairs.remove(pair)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refuses:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:  # the server behind the proxy is down
                client.close()
                continue
            pair = _Pair(self, client, server)
            self._pairs.append(pair)
            threading.Thread(target=pair.forward_requests, daemon=True).start()
            threading.Thread(target=pair.forward_answers, daemon=True).start()


class _Pair:
    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._swallow = threading.Event()

    def forward_requests(self) -> None:
        with self._ending():
            while data := self._client.recv(65536):
                if self._proxy.is_black_hole:
                    continue
                self._proxy.wait()
                # "READ COMMITTED" occurs in the statement that begins a transaction
                commits = b"COMMIT" in data and b"COMMITTED" not in data
                if commits and self._proxy.cut is not None:
                    when, self._proxy.cut = self._proxy.cut, None
                    self._proxy.cuts += 1
                    if when == "before":
                        return
                    if when == "for good":
                        self._proxy.close()
                    self._swallow.set()
                self._server.sendall(data)

    def forward_answers(self) -> None:
        with self._ending():
            while data := self._server.recv(65536):
                if self._swallow.is_set():
                    return
                if self._proxy.is_black_hole:
                    continue
                self._proxy.wait()
                self._client.sendall(data)

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        with contextlib.suppress(OSError):
            yield
        self.end()
        self._proxy.forget(self)

    def end(self) -> None:
        for one in (self._client, self._server):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
