# SPDX-License-Identifier: Apache-2.0
"""HTTP server for a WSGI application in this process, and clients that send exact bytes."""

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kilonova.server.limits import Limits
from kilonova.server.listening import listen
from kilonova.server.server import Server

Environ = dict[str, Any]
PATIENCE_S = 30.0


class Echo:
    """WSGI application that returns its request.

    ``/big/N`` returns N bytes, ``/fail`` raises, ``/wait`` blocks until released.
    """

    def __init__(self) -> None:
        self.seen: list[Environ] = []
        self.may_go_on = threading.Event()

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Any:
        self.seen.append(environ)
        path = environ["PATH_INFO"]
        if path == "/fail":
            raise RuntimeError("injected application error")
        if path == "/wait":
            self.may_go_on.wait(PATIENCE_S)
        if path == "/none":
            start_response("204 No Content", [])
            return []
        body = environ["wsgi.input"].read()
        if path.startswith("/big/"):
            body = b"x" * int(path[5:])
        elif path.startswith("/pieces/"):
            start_response("200 OK", [("Content-Type", "text/plain")])
            return (piece for piece in (b"one", b"", b"two") * int(path[8:]))
        else:
            plain = {key: value for key, value in environ.items() if isinstance(value, (str, int))}
            body = json.dumps({**plain, "body": body.decode("latin-1"), "length": len(body)}).encode()
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Client:
    """One HTTP connection."""

    sock: socket.socket
    received: bytearray = field(default_factory=bytearray)

    def send(self, data: bytes) -> "Client":
        self.sock.sendall(data)
        return self

    def ask(self, data: bytes, *, method: str = "GET") -> Answer:
        return self.send(data).answer(method)

    def answer(self, method: str = "GET") -> Answer:
        """Read and return the next response."""
        head = self.line_end(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        status = int(first.split()[1])
        if method == "HEAD" or status in {100, 204}:
            return Answer(status, headers, b"")
        if headers.get("transfer-encoding") == "chunked":
            body = bytearray()
            while size := int(self.line_end(b"\r\n"), 16):
                body += self.exactly(size)
                self.exactly(2)
            self.exactly(2)
            return Answer(status, headers, bytes(body))
        if "content-length" in headers:
            return Answer(status, headers, self.exactly(int(headers["content-length"])))
        return Answer(status, headers, self.rest())

    def line_end(self, mark: bytes) -> bytes:
        while (end := self.received.find(mark)) < 0:
            self.more()
        found = bytes(self.received[:end])
        del self.received[: end + len(mark)]
        return found

    def exactly(self, size: int) -> bytes:
        while len(self.received) < size:
            self.more()
        found = bytes(self.received[:size])
        del self.received[:size]
        return found

    def more(self) -> None:
        data = self.sock.recv(1 << 18)
        if not data:
            raise EOFError(bytes(self.received[:500]))
        self.received += data

    def rest(self) -> bytes:
        """Return all bytes until the server closes the connection."""
        while data := self.sock.recv(1 << 18):
            self.received += data
        found = bytes(self.received)
        self.received.clear()
        return found

    def is_closed(self, within_s: float = PATIENCE_S) -> bool:
        self.sock.settimeout(within_s)
        try:
            return not self.sock.recv(1 << 16)
        except ConnectionError:
            return True
        except TimeoutError:
            return False


@dataclass
class Serving:
    server: Server
    app: Any
    port: int

    def client(self, tls: ssl.SSLContext | None = None) -> Client:
        sock = socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)
        return Client(tls.wrap_socket(sock, server_hostname="localhost") if tls else sock)

    def open_connections(self, count: int, within_s: float = PATIENCE_S) -> bool:
        """Wait until the server has at most ``count`` open connections."""
        end = time.monotonic() + within_s
        while len(self.server._connections) > count and time.monotonic() < end:
            time.sleep(0.01)
        return len(self.server._connections) <= count


@contextmanager
def serving(
    app: Any = None, *, threads: int = 4, tls: ssl.SSLContext | None = None, **limits: Any
) -> Iterator[Serving]:
    app = app or Echo()
    listener = listen("127.0.0.1", 0, "test")
    server = Server(app, listener, Limits(**limits), threads, tls)
    server.start()
    try:
        yield Serving(server, app, listener.getsockname()[1])
    finally:
        server.stop()


def get(path: str = "/", *lines: str, version: str = "1.1") -> bytes:
    return request("GET", path, *lines, version=version)


def request(method: str, path: str, *lines: str, body: bytes | None = None, version: str = "1.1") -> bytes:
    more = [f"Content-Length: {len(body)}"] if body is not None else []
    head = "\r\n".join([f"{method} {path} HTTP/{version}", "Host: x", *lines, *more, "", ""])
    return head.encode("latin-1") + (body or b"")


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
