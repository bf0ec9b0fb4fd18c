# SPDX-License-Identifier: Apache-2.0
"""The connection of one client. At most one thread at a time handles it; no thread waits for its next event.

::

    HANDSHAKE ─▶ READING ◀──────────────┐
                   │ a request is whole  │ keep-alive
                   ▼                     │
                ANSWERING ─▶ WRITING ────┤
                   │                     └─▶ LINGERING ─▶ closed
                   └─▶ STREAMING ──────────────────────────▲

LINGERING: the answer is sent, and further input of the client is discarded for a while. Closing at once would reset the
connection, and the client would see the reset instead of the answer. STREAMING: ``event_streams.py`` sends events.
"""

import select
import socket
import ssl
import threading
import time
from collections import deque
from enum import Enum, auto
from typing import Any, Protocol

import httptools

from kilonova.server.event_stream import EventStream
from kilonova.server.limits import Limits
from kilonova.server.request import Refused, Request
from kilonova.server.response import refusal

CHUNK = 1 << 16
_TLS_PIECE = 1 << 18
_READS = 64  # Maximum number of reads from one client before other clients get their turn.
_TURNS = 16  # Maximum number of requests of one client that are answered before other clients get their turn.
_GONE_AFTER_S = 1.0
_LOOK_EVERY_S = 0.02
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
READ, WRITE = select.EPOLLIN | select.EPOLLRDHUP, select.EPOLLOUT
_LEFT = select.POLLRDHUP | select.POLLHUP | select.POLLERR
NEVER = float("inf")


class Phase(Enum):
    HANDSHAKE = auto()
    READING = auto()
    ANSWERING = auto()
    WRITING = auto()
    LINGERING = auto()
    STREAMING = auto()


class Host(Protocol):
    """The methods and attributes of the server that connections use."""

    limits: Limits
    stopping: bool

    def arm(self, connection: "Connection", events: int) -> None:
        """Schedule a call of :meth:`Connection.turn` for the next event of the epoll mask ``events``."""

    def answer(self, connection: "Connection", request: Request) -> bool:
        """Run the application and send its answer; return whether the connection is kept alive."""

    def admits(self, connection: "Connection", request: Request) -> bool:
        """Return whether the application accepts the token of a request, so that the server reads the body."""

    def hold(self, connection: "Connection", size: int) -> None:
        """Add ``size``, which may be negative, to the number of bytes held for all incomplete requests."""

    def owe(self, size: int) -> bool:
        """Add ``size``, which may be negative, to the number of unsent bytes of all connections.

        Return whether the sum is within the limit.
        """

    def forget(self, connection: "Connection") -> None:
        """Remove a closed connection."""


class Connection:
    """A client's socket with its HTTP parser, its received requests and its unsent output."""

    __slots__ = (
        "address", "base", "begun", "gone", "head_bytes", "held", "host", "in_body", "in_head", "is_closed", "kept",
        "largest", "lock", "looked_at", "out", "parser", "phase", "raw_bytes", "ready", "refused", "request",
        "since", "sock", "stream", "streaming", "tls", "until",
    )  # fmt: skip

    def __init__(self, host: Host, sock: socket.socket, address: Any, base: dict[str, Any], *, tls: bool) -> None:
        self.host = host
        self.sock = sock
        self.address: str = address[0]
        self.base = base
        self.tls = tls
        self.lock = threading.Lock()
        self.parser = httptools.HttpRequestParser(self)
        self.phase = Phase.HANDSHAKE if tls else Phase.READING
        self.is_closed = self.gone = self.kept = self.in_head = self.in_body = False
        self.ready: deque[Request] = deque()
        self.refused: Refused | None = None
        self.streaming: Request | None = None
        self.stream: EventStream | None = None
        self.request = Request()
        self.out: list[memoryview] = []
        self.held = self.head_bytes = self.raw_bytes = 0
        self.looked_at = 0.0
        self.since = self.begun = time.monotonic()
        self.until = self.since + host.limits.head_s

    # --- handling of an event -----------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Handle an event as far as possible without blocking. The caller holds the lock."""
        if self.phase is Phase.READING:
            self._read()
        elif self.phase is Phase.WRITING:
            self._flush()
        elif self.phase is Phase.LINGERING:
            self._drop()
        elif self.phase is Phase.HANDSHAKE:
            self._shake_hands()

    def _shake_hands(self) -> None:
        assert isinstance(self.sock, ssl.SSLSocket)
        try:
            self.sock.do_handshake()
        except ssl.SSLWantReadError:
            self.host.arm(self, READ)
        except ssl.SSLWantWriteError:
            self.host.arm(self, WRITE)
        except (OSError, ValueError):
            self.close()
        else:
            self.phase = Phase.READING
            self._read()

    def _read(self) -> None:
        # the last turn ended before all received requests were answered
        if self.ready or self.streaming is not None or self.refused is not None:
            self._answer_all()
            return
        for _ in range(_READS):
            data = self.receive()
            if data is None:
                break
            if not data:
                self.close()
                return
            self.feed(data)
            if self.ready or self.refused is not None or self.streaming is not None:
                break
            if self.in_body and not self.request.admitted:
                break
            # with TLS, the TLS layer may have buffered data, which epoll does not report
            if len(data) < CHUNK and not self.tls:
                break
        self._answer_all()

    def receive(self) -> bytes | None:
        """Return the received bytes, None if there are none yet, and b"" at the end of the connection."""
        try:
            return self.sock.recv(CHUNK)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except OSError:
            return b""

    def _answer_all(self) -> None:
        for _ in range(_TURNS):
            if self.ready:
                request = self.ready.popleft()
            elif self.refused is None and self.streaming is not None:
                request, self.streaming = self.streaming, None
            else:
                break
            if not self._answer(request):
                return
        if self.ready or (self.streaming is not None and self.refused is None):
            # the WRITE event occurs immediately, but is handled after the events of other connections
            self.host.arm(self, WRITE)
        elif self.refused is not None:
            self._refuse(self.refused)
        else:
            self._await_more()

    def _answer(self, request: Request) -> bool:
        """Answer a request. Return whether the connection's next request may be answered immediately."""
        self.phase, self.until, self.begun = Phase.ANSWERING, NEVER, time.monotonic()
        self.kept = self.host.answer(self, request)
        if self.is_closed or self.phase is Phase.STREAMING:
            return False
        if self.out:
            self.phase = Phase.WRITING
            self.until = time.monotonic() + self.host.limits.write_s
            self.host.arm(self, WRITE)
            return False
        return self._after_answer()

    def _after_answer(self) -> bool:
        if self.kept and not self.host.stopping:
            self.phase = Phase.READING
            return True
        self.linger()
        return False

    def _await_more(self) -> None:
        """Wait for the rest of an incomplete request, or for the next request."""
        if self.in_body and not self.request.admitted and not self._admit():
            self._answer_all()
            return
        limits, now = self.host.limits, time.monotonic()
        if self.in_body:
            if self.request.expects_continue:
                self.request.expects_continue = False
                self.send(_CONTINUE)
            self.until = self.begun + limits.body_s + len(self.request.body) / limits.bytes_per_s
        elif self.in_head:
            self.until = self.begun + limits.head_s
        else:
            self.since, self.until = now, now + limits.idle_s
        self.host.arm(self, READ)

    def _admit(self) -> bool:
        """Make the application check the token of a request before more of its body is read.

        If the application rejects the token, refuse the request without reading its body.
        """
        began = time.monotonic()
        self.phase, self.until = Phase.ANSWERING, NEVER
        self.request.admitted = self.host.admits(self, self.request)
        self.phase = Phase.READING
        self.begun += time.monotonic() - began  # the time of the token check does not count towards the body timeout
        if not self.request.admitted:
            self._ask_without_body(401)
        return self.request.admitted

    # --- callbacks of the parser --------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Parse received bytes.

        Complete requests are added to ``ready``; an error in the next request is stored in ``refused``.
        """
        if not (self.in_head or self.in_body):
            self.begun = self.since = time.monotonic()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._end_with_last()  # protocol upgrades are not supported: the Upgrade header is ignored
        except httptools.HttpParserError as error:
            self.refused = self.refused or _reason(error)
        if self.in_head:
            self.head_bytes += len(data)
            if self.head_bytes > self.host.limits.head and self.refused is None:
                self.refused = Refused(431, "The headers are too large.")
            self.hold(self.head_bytes)
        elif self.in_body and not self.request.streamed:
            self.raw_bytes += len(data)
            if self.raw_bytes > self.host.limits.head + 8 * len(self.request.body) and self.refused is None:
                self.refused = Refused(400, "The chunk headers of the body are much larger than its data.")
            self.hold(self.head_bytes + len(self.request.body))
        elif self.held:
            self.hold(0)

    def hold(self, size: int) -> None:
        if size != self.held:
            more, self.held = size - self.held, size
            self.host.hold(self, more)

    def _end_with_last(self) -> None:
        if self.ready:
            self.ready[-1].keep_alive = False

    def on_message_begin(self) -> None:
        if self.ready and not self.ready[-1].keep_alive:
            raise Refused(400, "Data follows the last request of the connection.")
        self.in_head, self.head_bytes, self.raw_bytes = True, 0, 0
        self.request = Request()

    def on_url(self, part: bytes) -> None:
        self.request.url += part

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.in_head:  # trailers are ignored
            return
        self.request.add_header(name, value)
        if self.request.headers > self.host.limits.headers:
            raise Refused(431, "There are too many headers.")

    def on_headers_complete(self) -> None:
        request, limits = self.request, self.host.limits
        self.in_head = False
        request.read_head(self.parser.get_method().decode(), self.parser.get_http_version())
        if not request.has_body:
            return
        self.in_body = True
        request.admitted = limits.probe_path is None or not request.has_token
        is_stream = limits.streams is not None and limits.streams(request.method, request.path)
        without_token = limits.tokenless(request.method, request.path)
        may_send = request.has_token or without_token or (is_stream and request.has_authorization)
        self.largest = without_token or limits.body_of(request.path)
        if limits.token_needed and not may_send:
            self._ask_without_body(401)
            raise _Enough
        if is_stream:
            self.streaming, request.streamed, request.admitted = request, True, True
        elif request.length > self.largest:
            self._ask_without_body(413)
            raise _Enough

    def _ask_without_body(self, status: int) -> None:
        """Make the application refuse the request with ``status``, without its body; then close the connection."""
        request = self.request
        request.body_refused, request.body, request.keep_alive = status, b"", False
        self.in_body = False
        self.ready.append(request)

    def on_body(self, part: bytes) -> None:
        request = self.request
        if request.body:
            if isinstance(request.body, bytes):
                request.body = bytearray(request.body)
            request.body += part
        else:
            request.body = part
        if not request.streamed and len(request.body) > self.largest:
            self._ask_without_body(413)
            raise _Enough

    def on_message_complete(self) -> None:
        self.in_body = False
        self.request.keep_alive, self.request.complete = self.parser.should_keep_alive(), True
        if not self.request.streamed:
            self.ready.append(self.request)

    # --- sending ------------------------------------------------------------------------------------------------------

    def send(self, *parts: bytes) -> None:
        """Send as many bytes as possible without blocking, and queue the other bytes."""
        if self.out:
            self._owe([memoryview(part) for part in parts])
            return
        data = parts[0] if len(parts) == 1 else b"".join(parts) if self.tls or len(parts[1]) < CHUNK else None
        try:
            if data is None:
                sent = self.sock.sendmsg(parts)
            elif self.tls and len(data) > _TLS_PIECE:
                sent = 0
            else:
                sent = self.sock.send(data)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            sent = 0
        except OSError:
            self.close()
            return
        if data is not None:
            parts = (data,)
        left = []
        for part in parts:
            if sent < len(part):
                left.append(memoryview(part)[sent:])
                sent = 0
            else:
                sent -= len(part)
        if left:
            self._owe(left)
            self.send_rest()

    def _owe(self, parts: list[memoryview]) -> None:
        self.out += parts
        if not self.host.owe(sum(map(len, parts))):
            self.close()

    def send_rest(self) -> bool:
        """Send queued output without blocking; return whether all output has been sent."""
        while self.out:
            part = self.out[0]
            try:
                sent = self.sock.send(part[:_TLS_PIECE] if self.tls else part)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return False
            except OSError:
                self.close()
                return False
            self.host.owe(-sent)
            self.until = time.monotonic() + self.host.limits.write_s
            if sent < len(part):
                self.out[0] = part[sent:]
            else:
                del self.out[0]
        return True

    def _flush(self) -> None:
        if self.send_rest():
            if self._after_answer():
                self._answer_all()
        elif not self.is_closed:
            self.host.arm(self, WRITE)

    # --- the end ------------------------------------------------------------------------------------------------------

    def expire(self) -> None:
        """Handle a timeout: refuse an incomplete request with 408; otherwise close the connection.

        The caller holds the lock.
        """
        if self.phase is Phase.READING and (self.in_head or self.in_body):
            self._refuse(Refused(408, "The request did not arrive in time."))
        else:
            self.close()

    def _refuse(self, refused: Refused) -> None:
        self.send(refusal(refused.status, str(refused)))
        if not self.is_closed:
            self.linger()

    def linger(self) -> None:
        """Shut down the sending side, and discard further input of the client."""
        self.hold(0)
        self.phase = Phase.LINGERING
        self.until = time.monotonic() + self.host.limits.linger_s
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()
        else:
            self._drop()

    def _drop(self) -> None:
        for _ in range(4):
            try:
                if not socket.socket.recv(self.sock, CHUNK):
                    self.close()
                    return
            except BlockingIOError:
                break
            except OSError:
                self.close()
                return
        self.host.arm(self, READ)

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.hold(0)
            if self.out:
                self.host.owe(-sum(map(len, self.out)))
                self.out = []
            self.host.forget(self)
            self.sock.close()
            if self.stream is not None:
                self.stream.close()

    def client_gone(self) -> bool:
        """Return whether the client has gone.

        The client has gone if the connection is broken, or if it is half-closed and the request has run for over 1 s.

        A client that has shut down only its sending side cannot be distinguished from a client that has gone. Such a
        client gets an answer only if the request takes at most 1 s.
        """
        now = time.monotonic()
        if self.gone or now - self.looked_at < _LOOK_EVERY_S:
            return self.gone
        self.looked_at = now
        poll = select.poll()  # not shared: several threads may call this method at the same time
        poll.register(self.sock.fileno(), _LEFT)
        events = poll.poll(0)
        if events:
            self.gone = bool(events[0][1] & ~select.POLLRDHUP) or now - self.begun > _GONE_AFTER_S
        return self.gone


class _Enough(Exception):
    """Raised by a callback of the parser to stop it: the remaining input is ignored."""


def _reason(error: httptools.HttpParserError) -> Refused | None:
    cause = error.__context__
    if isinstance(cause, Refused):
        return cause
    if isinstance(cause, _Enough):
        return None
    return Refused(400, "This is not a valid HTTP request.")
