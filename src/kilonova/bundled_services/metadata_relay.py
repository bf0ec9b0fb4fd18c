# SPDX-License-Identifier: Apache-2.0
"""Forwards requests for metadata from the guests of one network to the agent of the host, over a Unix socket.

The forwarded request names the network, the source address and the MAC address of the guest. It contains no header of
the guest, so a guest cannot pretend to be another one.
"""

import http.client
import logging
import socket
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
_TIMEOUT_S = 20.0
#: User data have 64 KiB at most, and no other answer is larger.
_MOST_BYTES = 1 << 20
#: Largest body that is forwarded. Passwords, which guests post, are smaller.
MOST_POSTED = 2048
_FORWARDED = frozenset({"GET", "HEAD", "POST"})
_RETRY_AFTER = "Retry-After"
Headers = list[tuple[str, str]]
Answer = tuple[int, Headers, bytes]


class _LocalConnection(http.client.HTTPConnection):
    """HTTP connection to the Unix socket at ``path``."""

    def __init__(self, path: str) -> None:
        super().__init__("agent", timeout=_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_TIMEOUT_S)
        self.sock.connect(self._path)


@dataclass(frozen=True, slots=True)
class HostAgent:
    """The agent of the host, which listens at the Unix socket ``path``."""

    path: str

    def ask(self, method: str, path: str, body: bytes, guest: dict[str, str]) -> Answer:
        """Return status, headers and body of the answer. ``guest``: headers that name the guest.

        Raises: OSError, HTTPException.
        """
        connection = _LocalConnection(self.path)
        try:
            connection.request(method, quote(path.encode("latin-1")), body or None, guest)
            answer = connection.getresponse()
            headers = [("Content-Type", answer.getheader("Content-Type", "text/plain"))]
            if after := answer.getheader(_RETRY_AFTER):
                headers.append((_RETRY_AFTER, after))
            return answer.status, headers, answer.read(_MOST_BYTES)
        finally:
            connection.close()


@dataclass(frozen=True, slots=True)
class Relay:
    """WSGI application that forwards the requests of guests in one network to the agent of the host.

    ``network``: id of the network. ``mac_of``: function that returns the MAC address for an IP address; "" if unknown.
    """

    agent: HostAgent
    network: str
    mac_of: Callable[[str], str]

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        status, headers, body = self._answer(environ)
        headers.append(("Content-Length", str(len(body))))
        start_response(f"{status} {http.client.responses.get(status, 'Unknown')}", headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _answer(self, environ: dict[str, Any]) -> Answer:
        method, address = environ["REQUEST_METHOD"], environ.get("REMOTE_ADDR", "").partition("%")[0]
        if method not in _FORWARDED:
            return _refusal(405)
        body = environ["wsgi.input"].read(MOST_POSTED) if method == "POST" else b""
        guest = {"X-Kilonova-Network": self.network, "X-Kilonova-Address": address}
        if mac := self.mac_of(address):
            guest["X-Kilonova-Mac"] = mac
        try:
            sent = "GET" if method == "HEAD" else method
            return self.agent.ask(sent, environ.get("PATH_INFO", "/") or "/", body, guest)
        except (OSError, http.client.HTTPException) as error:
            LOG.warning("The agent of this host does not answer a request for metadata: %s", error)
            return _refusal(503)


def _refusal(status: int) -> Answer:
    headers = [("Content-Type", "text/plain; charset=UTF-8")]
    if status == 503:
        headers.append((_RETRY_AFTER, "1"))
    return status, headers, f"{status} {http.client.responses[status]}\n".encode()
