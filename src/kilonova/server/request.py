# SPDX-License-Identifier: Apache-2.0
"""One received HTTP request, and its WSGI environment."""

import sys
from dataclasses import field
from io import BytesIO
from typing import Any
from urllib.parse import unquote_to_bytes

from kilonova.records import dataclass
from kilonova.wsgi_keys import BODY_REFUSED

_KEYS_KEPT, _KEY_KEPT = 1_000, 64  # size of the cache of header names, and maximum length of a cached name
_DROPPED = ""
_DIGITS = 19  # a Content-Length with this number of digits or more is too large
_ONLY_ONCE = frozenset(
    {"HTTP_HOST", "CONTENT_LENGTH", "HTTP_TRANSFER_ENCODING", "HTTP_X_AUTH_TOKEN", "HTTP_AUTHORIZATION", "CONTENT_TYPE"}
)
_keys: dict[bytes, str] = {}


class Refused(Exception):
    """A request that the server refuses without running the application."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(slots=True)
class Request:
    """A request. ``named``: its headers, by their WSGI names; ``headers``: number of its header lines.

    ``body_refused``: if not 0, the body is not read, and the application must refuse the request with this status.
    ``streamed``: the application reads the body while it arrives; ``body`` is then the part that has been received, but
    not read yet. ``admitted``: the server may wait for the body.
    """

    url: bytes = b""
    headers: int = 0
    method: str = ""
    version: str = "1.1"
    path: str = ""
    query: str = ""
    length: int = 0
    chunked: bool = False
    expects_continue: bool = False
    keep_alive: bool = False
    named: dict[str, str] = field(default_factory=dict)
    body: bytes | bytearray = b""
    body_refused: int = 0
    streamed: bool = False
    admitted: bool = False
    complete: bool = False

    @property
    def has_token(self) -> bool:
        return "HTTP_X_AUTH_TOKEN" in self.named

    @property
    def has_authorization(self) -> bool:
        return "HTTP_AUTHORIZATION" in self.named

    @property
    def has_body(self) -> bool:
        return self.chunked or self.length > 0

    def add_header(self, name: bytes, value: bytes) -> None:
        """Add one header line. Raises: Refused."""
        self.headers += 1
        key = _keys.get(name) or _key_of(name)
        named = self.named
        if key not in named:
            named[key] = value.decode("latin-1")
        elif key in _ONLY_ONCE:
            raise Refused(400, f"The header {name.decode('latin-1').lower()} is given twice.")
        else:
            named[key] += ("; " if key == "HTTP_COOKIE" else ",") + value.decode("latin-1")

    def read_head(self, method: str, version: str) -> None:
        """Interpret the request line and the headers that determine the end of the request. Raises: Refused."""
        if version not in {"1.0", "1.1"}:
            raise Refused(505, "Only HTTP/1.0 and HTTP/1.1 are supported.")
        self.method, self.version = method, version
        self._read_url()
        named = self.named
        named.pop(_DROPPED, None)
        if "HTTP_HOST" not in named and version == "1.1":
            raise Refused(400, "The header Host is missing.")
        coding = named.get("HTTP_TRANSFER_ENCODING")
        if coding is not None:
            if coding.lower() != "chunked" or version != "1.1":
                raise Refused(501, "The transfer encoding is not supported.")
            self.chunked = True
        length = named.get("CONTENT_LENGTH")
        if length is not None:
            if coding is not None or not (length.isascii() and length.isdigit()):
                raise Refused(400, "The length of the body is ambiguous or invalid.")
            self.length = int(length) if len(length) < _DIGITS else sys.maxsize
        expectation = named.get("HTTP_EXPECT")
        if expectation is not None:
            if expectation.lower() != "100-continue":
                raise Refused(417, "The only supported expectation is 100-continue.")
            self.expects_continue = version == "1.1"

    def _read_url(self) -> None:
        url = self.url
        if not url.startswith(b"/"):
            scheme, separator, rest = url.partition(b"://")
            # absolute form of a URL, which clients send to proxies
            if separator and scheme.lower() in {b"http", b"https"}:
                authority, _, after = rest.partition(b"/")
                url = b"/" + after if b"?" not in authority else b"/?" + authority.partition(b"?")[2] + b"/" + after
            elif url != b"*":
                raise Refused(400, "The request line is malformed.")
        path, _, query = url.partition(b"?")
        if b"%" in path:
            path = unquote_to_bytes(path)
        self.path, self.query = path.partition(b"#")[0].decode("latin-1"), query.partition(b"#")[0].decode("latin-1")

    def environ(self, base: dict[str, Any], stream: Any = None) -> dict[str, Any]:
        """Return the WSGI environment. ``base``: the items that all requests of a connection have in common.

        ``stream``: the ``wsgi.input`` of a streamed body; None if the whole body has been received.
        """
        environ = base.copy()
        environ.update(self.named)
        environ["REQUEST_METHOD"] = self.method
        environ["PATH_INFO"] = self.path
        environ["QUERY_STRING"] = self.query
        environ["SERVER_PROTOCOL"] = "HTTP/" + self.version
        if stream is not None:
            environ["wsgi.input"] = stream
            if self.chunked:
                environ["wsgi.input_terminated"] = True
            return environ
        if self.chunked:  # the whole body has been received, so its length is known
            del environ["HTTP_TRANSFER_ENCODING"]
            environ["CONTENT_LENGTH"] = str(len(self.body))
        if self.body_refused:
            environ[BODY_REFUSED] = self.body_refused
            environ["CONTENT_LENGTH"] = "0"
        environ["wsgi.input"] = BytesIO(self.body)
        return environ

    def probe(self, base: dict[str, Any], path: str) -> dict[str, Any]:
        """Return the WSGI environment of a GET of ``path`` with the headers of this request."""
        environ: dict[str, Any] = {**base, **self.named, "REQUEST_METHOD": "GET", "PATH_INFO": path, "QUERY_STRING": ""}
        for name in ("CONTENT_LENGTH", "CONTENT_TYPE", "HTTP_TRANSFER_ENCODING", "HTTP_EXPECT"):
            environ.pop(name, None)
        environ["SERVER_PROTOCOL"] = "HTTP/" + self.version
        environ["wsgi.input"] = BytesIO()
        return environ


def _key_of(name: bytes) -> str:
    """Return the WSGI name of a header, or "" if it contains an underscore: X_Auth_Token could forge X-Auth-Token."""
    if b"_" in name:
        return _DROPPED
    key = name.decode("latin-1").upper().replace("-", "_")
    if key not in {"CONTENT_TYPE", "CONTENT_LENGTH"}:
        key = "HTTP_" + key
    if len(_keys) < _KEYS_KEPT and len(name) < _KEY_KEPT:
        _keys[name] = key
    return key
