# SPDX-License-Identifier: Apache-2.0
"""Conversion of WSGI responses to bytes."""

import http
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from email.utils import formatdate
from typing import Any

from kilonova.records import dataclass
from kilonova.server.event_stream import EventStream
from kilonova.server.request import Request

_NO_BODY = ("1", "204", "304")
_clock: tuple[int, bytes] = (0, b"")


@dataclass(slots=True)
class Response:
    """The ``start_response`` of WSGI: records the status and headers of an application's answer.

    ``stream``: the stream of events that the application has handed over, if any.
    """

    status: str = ""
    headers: list[tuple[str, str]] = field(default_factory=list)
    written: list[bytes] = field(default_factory=list)
    stream: EventStream | None = None

    def __call__(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], None]:
        if self.status and exc_info is None:
            raise AssertionError("start_response was called twice.")
        self.status = status
        self.headers = headers
        return self.written.append

    def hand_over(self, stream: EventStream) -> None:
        """Take a stream of events, to be sent after the headers if the status is 200, and closed in any case."""
        self.stream = stream

    @property
    def has_body(self) -> bool:
        return not self.status.startswith(_NO_BODY)

    @property
    def length(self) -> int | None:
        """The Content-Length that the application has set, or None."""
        for name, value in self.headers:
            if name.lower() == "content-length":
                return int(value)
        return None

    def stream_head(self, request: Request) -> bytes:
        """Return the status line and the headers of a stream, which ends with the connection."""
        self.headers = [header for header in self.headers if header[0].lower() != "content-length"]
        return self.head(request, keep=False)

    def head(self, request: Request, *, keep: bool, length: int | None = None, chunked: bool = False) -> bytes:
        """Return the status line and the headers.

        ``length``: length of the body, used if the application sets no Content-Length.
        """
        if not self.status:
            raise AssertionError("start_response was not called.")
        text = f"HTTP/1.1 {self.status}"
        length_is_said = False
        for name, value in self.headers:
            text += f"\r\n{name}: {value}"
            length_is_said = length_is_said or name.lower() == "content-length"
        if text.count("\n") + text.count("\r") != 2 * len(self.headers):
            raise ValueError(f"A header contains a line break: {self.headers!r}.")
        if chunked:
            text += "\r\nTransfer-Encoding: chunked"
        elif length is not None and not length_is_said and self.has_body:
            text += f"\r\nContent-Length: {length}"
        if not keep:
            text += "\r\nConnection: close"
        elif request.version == "1.0":
            text += "\r\nConnection: keep-alive"
        return text.encode("latin-1") + date_header() + b"\r\n\r\n"


def joined(parts: Iterable[bytes]) -> bytes:
    """Join the parts of a complete body; a single part is not copied."""
    if isinstance(parts, Sequence) and len(parts) == 1:
        one: bytes = parts[0]
        return one
    return b"".join(parts)


def date_header() -> bytes:
    """Return the Date header, cached for a second."""
    global _clock  # noqa: PLW0603 - a cache of one value; if two threads race, the value is only computed twice
    now = int(time.time())
    if _clock[0] != now:
        _clock = now, b"\r\nDate: " + formatdate(now, usegmt=True).encode()
    return _clock[1]


def refusal(status: int, reason: str) -> bytes:
    """Return a complete error response of the server itself. It announces that the connection will be closed."""
    body = f"{status} {http.HTTPStatus(status).phrase}\n\n{reason}\n".encode()
    retry = b"Retry-After: 1\r\n" if status == 503 else b""
    return (
        (
            f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\nContent-Type: text/plain; charset=UTF-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n"
        ).encode()
        + retry
        + b"\r\n"
        + body
    )
