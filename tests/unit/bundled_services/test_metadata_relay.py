# SPDX-License-Identifier: Apache-2.0
"""Requests of guests for metadata, forwarded to a stand-in for Kilonova."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from kilonova.bundled_services.metadata_networks import Asker
from kilonova.bundled_services.metadata_relay import Metadata, Relay

ASKER = Asker("server-1", "wonder")
Seen = list[tuple[str, dict[str, str]]]


@pytest.fixture
def kilonova() -> Iterator[tuple[str, Seen]]:
    """Stand-in for Kilonova: its URL, and the paths and headers of requests."""
    seen: Seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, dict(self.headers)))
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; charset=UTF-8")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: Any) -> None:
            """Write no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", seen
    server.shutdown()
    server.server_close()
    thread.join()


def ask(relay: Relay, path: str, address: str = "10.1.0.9", method: str = "GET") -> tuple[str, bytes]:
    answered: list[str] = []
    environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "REMOTE_ADDR": address}
    body = relay(environ, lambda status, _headers: answered.append(status))
    return answered[0], b"".join(body)


def relay_to(url: str) -> Relay:
    return Relay(Metadata(url, "secret"), {"10.1.0.9": ASKER}.get)


def test_the_headers_name_the_server_that_has_the_address(kilonova: tuple[str, Seen]) -> None:
    url, seen = kilonova
    assert ask(relay_to(url), "/latest/meta-data/ü x") == ("200 OK", b"ok")
    ((path, headers),) = seen
    assert path == "/latest/meta-data/%FC%20x"
    assert (headers["X-Instance-ID"], headers["X-Tenant-ID"]) == ("server-1", "wonder")
    assert headers["X-Instance-ID-Signature"] == Metadata(url, "secret").signature("server-1")
    assert headers["X-Forwarded-For"] == "10.1.0.9"
    assert ask(relay_to(url), "/latest", method="HEAD") == ("200 OK", b"")


def test_strangers_and_writers_are_refused(kilonova: tuple[str, Seen]) -> None:
    url, seen = kilonova
    assert ask(relay_to(url), "/latest", "10.1.0.10")[0] == "404 Not Found"
    assert ask(relay_to(url), "/openstack/latest/password", method="POST")[0] == "405 Method Not Allowed"
    assert seen == []


def test_a_kilonova_that_is_away_is_a_503() -> None:
    assert ask(relay_to("http://127.0.0.1:1"), "/latest")[0] == "503 Service Unavailable"
