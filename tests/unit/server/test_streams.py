# SPDX-License-Identifier: Apache-2.0
"""Bodies that the application reads while they arrive: as large as they like, few at once."""

import hashlib
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from support.http_clients import Serving, chunked, get, request, serving

MIB = 1 << 20


class Uploads:
    """Reads a body in pieces and answers with its digest; ``/early`` answers without reading."""

    def __init__(self) -> None:
        self.reading = 0
        self.failures: list[BaseException] = []

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        digest = hashlib.sha256()
        if environ["PATH_INFO"].startswith("/up"):
            self.reading += 1
            try:
                while piece := environ["wsgi.input"].read(100_000):
                    digest.update(piece)
            except OSError as error:
                self.failures.append(error)
                raise
            finally:
                self.reading -= 1
        start_response("200 OK", [])
        return [digest.hexdigest().encode()]


def uploads(**limits: Any) -> Any:
    streams = {"streams": lambda method, path: method == "PUT" and path.startswith("/"), "max_streams": 2}
    return serving(Uploads(), body=1000, **streams, **limits)


@pytest.mark.parametrize("kind", ["length", "chunks", "expected"])
def test_an_upload_of_any_size_is_not_kept_in_memory(kind: str) -> None:
    piece, count = bytes(range(256)) * 4096, 40
    with uploads() as served:
        client = served.client()
        before = psutil.Process().memory_info().rss
        if kind == "chunks":
            client.send(request("PUT", "/up", "Transfer-Encoding: chunked"))
            for _ in range(count):
                client.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            client.send(b"0\r\n\r\n")
        else:
            lines = ["Expect: 100-continue"] if kind == "expected" else []
            client.send(request("PUT", "/up", *lines, f"Content-Length: {count * len(piece)}"))
            if lines:
                assert client.answer().status == 100
            for _ in range(count):
                client.send(piece)
        assert client.answer().body == hashlib.sha256(piece * count).hexdigest().encode()
        assert psutil.Process().memory_info().rss - before < 40 * MIB + count * MIB  # the test has one copy itself
        assert client.ask(get("/up")).status == 200


def test_an_application_that_answers_before_the_end_is_heard() -> None:
    with uploads() as served:
        client = served.client()
        client.send(request("PUT", "/early", f"Content-Length: {30 * MIB}"))
        for _ in range(30):
            client.send(b"a" * MIB)
        assert client.answer().status == 200
        assert client.is_closed()


def wait_for_readers(served: Serving, count: int) -> None:
    end = time.monotonic() + 5
    while served.app.reading != count and time.monotonic() < end:
        time.sleep(0.01)
    assert served.app.reading == count


def test_only_so_many_at_once_and_others_are_answered() -> None:
    with uploads(idle_s=1.0) as served:
        slow = [served.client().send(request("PUT", "/up", "Content-Length: 100")) for _ in range(2)]
        wait_for_readers(served, 2)
        answer = served.client().ask(request("PUT", "/up", body=b"abc"))
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert served.client().ask(get("/")).status == 200
        slow[0].send(b"a" * 100)
        assert slow[0].answer().status == 200
        wait_for_readers(served, 0)  # the other was given up
        assert isinstance(served.app.failures[0], TimeoutError)
        assert served.client().ask(request("PUT", "/up", body=b"abc")).status == 200


def test_a_client_that_leaves_in_the_middle_ends_its_upload() -> None:
    with uploads() as served:
        for kind, rest in (("Content-Length: 100", b"abc"), ("Transfer-Encoding: chunked", b"zz\r\n")):
            client = served.client().send(request("PUT", "/up", kind))
            wait_for_readers(served, 1)
            client.send(rest)
            client.sock.shutdown(1)
            client.rest()
            wait_for_readers(served, 0)
        assert len(served.app.failures) == 2
        assert served.client().ask(request("PUT", "/up", "Transfer-Encoding: chunked") + chunked(b"a")).status == 200


@pytest.mark.parametrize("error", [ValueError, OSError])
@pytest.mark.parametrize("length", [[("Content-Length", str(4 * MIB))], []])
def test_an_answer_that_breaks_in_the_middle_ends_there(error: type[Exception], length: list[tuple[str, str]]) -> None:
    def breaking(_environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        start_response("200 OK", length)
        yield from (bytes(MIB) for _ in range(3))
        raise error("broken")

    with serving(breaking) as served:
        client = served.client().send(get("/"))
        received = client.rest()
        head, _, body = received.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert len(body) >= 3 * MIB
        assert b"HTTP/1.1" not in body
        assert not body.endswith(b"0\r\n\r\n")
