# SPDX-License-Identifier: Apache-2.0
"""Forwards requests for metadata from the guests of one network to Kilonova; signed headers name the guest's server."""

import hashlib
import hmac
import http.client
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from kilonova.bundled_services.metadata_networks import Asker

LOG = logging.getLogger(__name__)
_TIMEOUT_S = 20.0
#: User data have 64 KiB at most, and no other answer is larger.
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata API of Kilonova. ``url``: its address. ``secret``: the secret with which requests are signed."""

    url: str
    secret: str = field(repr=False)

    def get(self, asker: Asker, path: str, address: str) -> tuple[int, str, bytes]:
        """Return status, content type and body of the answer for a guest. Raises: OSError, HTTPException."""
        where = urlsplit(self.url)
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=_TIMEOUT_S)
        headers = {
            "X-Instance-ID": asker.server,
            "X-Tenant-ID": asker.project,
            "X-Instance-ID-Signature": self.signature(asker.server),
            "X-Forwarded-For": address,
        }
        try:
            connection.request("GET", quote(path.encode("latin-1")), headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.getheader("Content-Type", "text/plain"), answer.read(_MOST_BYTES)
        finally:
            connection.close()

    def signature(self, server: str) -> str:
        return hmac.new(self.secret.encode(), server.encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class Relay:
    """WSGI application. ``find``: returns the server that has an address in the network, or None."""

    metadata: Metadata
    find: Callable[[str], Asker | None]

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        status, kind, body = self._answer(environ)
        headers = [("Content-Type", kind), ("Content-Length", str(len(body)))]
        start_response(f"{status} {http.client.responses.get(status, 'Unknown')}", headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _answer(self, environ: dict[str, Any]) -> tuple[int, str, bytes]:
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
            return _refusal(405)
        address = environ.get("REMOTE_ADDR", "")
        asker = self.find(address)
        if asker is None:
            return _refusal(404)
        try:
            return self.metadata.get(asker, environ.get("PATH_INFO", "/") or "/", address)
        except (OSError, http.client.HTTPException) as error:
            LOG.warning("Metadata of server %s cannot be read: %s", asker.server, error)
            return _refusal(503)


def _refusal(status: int) -> tuple[int, str, bytes]:
    return status, "text/plain; charset=UTF-8", f"{status} {http.client.responses[status]}\n".encode()
