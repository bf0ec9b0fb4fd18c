# SPDX-License-Identifier: Apache-2.0
"""Streams of events: one thread sends all of them; slow, noisy and gone clients are disconnected."""

import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from kilonova.server.listening import tls_context
from kilonova.wsgi_keys import HAND_OVER
from support.certificates import Authority
from support.http_clients import Client, Serving, get, request, serving
from support.waiting import wait_until


class Stream:
    """A stream whose pieces the test adds; None ends it."""

    def __init__(self) -> None:
        self.pieces: deque[bytes | None] = deque()
        self.taken = 0
        self.closed = 0
        self.wake: Callable[[], None] = lambda: None

    def attach(self, wake: Callable[[], None]) -> None:
        self.wake = wake

    def take(self) -> bytes | None:
        if not self.pieces:
            return b""
        self.taken += 1
        return self.pieces.popleft()

    def close(self) -> None:
        self.closed += 1

    def add(self, *pieces: bytes | None) -> None:
        self.pieces.extend(pieces)
        self.wake()


class Streams:
    """Hands a stream over at ``/stream``; ``/refused`` answers 403 and ``/broken`` raises after the hand-over."""

    def __init__(self) -> None:
        self.made: list[Stream] = []

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        path = environ["PATH_INFO"]
        if path != "/plain":
            self.made.append(Stream())
            environ[HAND_OVER](self.made[-1])
        if path == "/broken":
            raise RuntimeError("injected application error")
        start_response("403 Forbidden" if path == "/refused" else "200 OK", [("Content-Length", "0")])
        return [b""]


def opened(served: Serving, client: Client) -> Stream:
    client.send(get("/stream"))
    head = client.line_end(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert b"content-length" not in head.lower()
    assert b"Connection: close" in head
    stream: Stream = served.app.made[-1]
    return stream


def test_pieces_are_sent_as_they_come_until_the_end() -> None:
    with serving(Streams()) as served:
        client = served.client()
        stream = opened(served, client)
        stream.add(b"one")
        assert client.exactly(3) == b"one"
        stream.add(b"two", b"three", None, b"never")
        assert client.rest() == b"twothree"
        wait_until(lambda: stream.closed == 1, "the end of the stream")
        wait_until(lambda: not len(served.server.event_streams), "the server to forget the stream")


def test_many_streams_need_one_thread_and_no_worker() -> None:
    with serving(Streams(), threads=1) as served:
        before = threading.active_count()
        clients = [served.client() for _ in range(50)]
        streams = [opened(served, client) for client in clients]
        assert threading.active_count() == before + 1
        assert served.client().ask(get("/plain")).status == 200
        for stream in streams:
            stream.add(b"event")
        assert {client.exactly(5) for client in clients} == {b"event"}


def test_tls_carries_streams_too(tmp_path: Any) -> None:
    authority = Authority(tmp_path)
    made = authority.certify("server", host="localhost")
    trusting = ssl.create_default_context(cafile=str(authority.ca_file))
    with serving(Streams(), tls=tls_context(str(made.cert_file), str(made.key_file), "test")) as served:
        client = served.client(trusting)
        stream = opened(served, client)
        large = b"x" * 3_000_000
        stream.add(b"one", large, b"end")
        assert client.exactly(3_000_006) == b"one" + large + b"end"
        client.sock.close()
        wait_until(lambda: stream.closed == 1, "the end of the stream")


@pytest.mark.parametrize(("path", "status"), [("/refused", 403), ("/broken", 500)])
def test_a_stream_without_a_good_answer_is_closed(path: str, status: int) -> None:
    with serving(Streams()) as served:
        assert served.client().ask(get(path)).status == status
        wait_until(lambda: served.app.made[0].closed, "the end of the stream")
        assert not len(served.server.event_streams)


def test_head_has_no_stream() -> None:
    with serving(Streams()) as served:
        assert served.client().ask(request("HEAD", "/stream"), method="HEAD").status == 200
        wait_until(lambda: served.app.made[0].closed, "the end of the stream")


def test_a_client_that_reads_nothing_costs_one_piece_and_is_disconnected() -> None:
    with serving(Streams(), piece_s=1.0) as served:
        slow, quick = served.client(), served.client()
        slow.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        held, read = opened(served, slow), opened(served, quick)
        piece = b"x" * (8 << 20)
        held.add(*[piece] * 3)
        began = time.monotonic()
        for _ in range(5):
            read.add(b"event")
            assert quick.exactly(5) == b"event"
        wait_until(lambda: held.closed == 1, "the slow client to be disconnected")
        assert held.taken == 1
        assert 0.5 < time.monotonic() - began < 15
        assert not read.closed


def test_a_client_that_reads_a_byte_now_and_then_is_disconnected_too() -> None:
    with serving(Streams(), piece_s=1.5) as served:
        client = served.client()
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stream = opened(served, client)
        stream.add(b"x" * (8 << 20))
        until = time.monotonic() + 20
        while not stream.closed and time.monotonic() < until:
            client.sock.recv(1000)
            time.sleep(0.1)
        assert stream.closed == 1
        assert time.monotonic() < until


def test_a_client_that_sends_too_much_is_disconnected() -> None:
    with serving(Streams()) as served:
        client = served.client()
        stream = opened(served, client)
        client.send(b"GET /plain HTTP/1.1\r\n\r\n")
        stream.add(b"event")
        assert client.exactly(5) == b"event", "a further request is ignored"
        with pytest.raises(OSError):
            for _ in range(1000):
                client.send(b"x" * 10_000)
                time.sleep(0.001)
        wait_until(lambda: stream.closed == 1, "the end of the stream")


@pytest.mark.parametrize("how", ["close", "half", "reset"])
def test_a_client_that_leaves_ends_its_stream(how: str) -> None:
    with serving(Streams()) as served:
        client = served.client()
        stream = opened(served, client)
        if how == "half":
            client.sock.shutdown(socket.SHUT_WR)
        else:
            if how == "reset":
                client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.sock.close()
        wait_until(lambda: stream.closed == 1, "the end of the stream")
        assert served.open_connections(0)


def test_a_failing_stream_ends_alone() -> None:
    with serving(Streams()) as served:
        clients = [served.client(), served.client()]
        failing, good = (opened(served, client) for client in clients)
        failing.take = lambda: 1 / 0  # type: ignore[method-assign,assignment,return-value]
        failing.wake()
        assert clients[0].is_closed()
        good.add(b"event")
        assert clients[1].exactly(5) == b"event"


def test_streams_end_with_the_server_at_once() -> None:
    with ExitStack() as started:
        served = started.enter_context(serving(Streams(), stop_s=20.0))
        client = served.client()
        stream = opened(served, client)
        began = time.monotonic()
        started.close()
        assert time.monotonic() - began < 10
        assert client.is_closed()
        assert stream.closed == 1


def test_streams_give_way_when_there_are_too_many_connections() -> None:
    with serving(Streams(), connections=20) as served:
        clients = [served.client() for _ in range(20)]
        streams = [opened(served, client) for client in clients]
        assert served.client().ask(get("/plain")).status == 200
        wait_until(lambda: any(stream.closed for stream in streams), "a stream to give way")
