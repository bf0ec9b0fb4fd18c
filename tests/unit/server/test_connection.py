# SPDX-License-Identifier: Apache-2.0
"""Time and memory that one HTTP connection may take."""

import time
from contextlib import ExitStack

import psutil
import pytest

from support.http_clients import chunked, get, request, serving
from support.waiting import wait_until

KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 70_000, 431),
        (b"GET /" + b"a" * 70_000, 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"A%d: b\r\n" % n for n in range(300)) + b"\r\n", 431),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"a" * 200_000, 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: " + b"a" * 200_000, 400),
    ],
    ids=["header", "path", "headers", "extension of a chunk", "trailer"],
)
def test_what_is_around_the_body_is_bounded(sent: bytes, status: int) -> None:
    with serving() as served:
        client = served.client()
        assert client.ask(sent).status == status
        assert client.is_closed()


def test_slow_clients_are_told_that_their_time_is_over() -> None:
    with serving(head_s=0.3, body_s=0.3, idle_s=0.3) as served:
        silent, idle, half, body, drip = (served.client() for _ in range(5))
        assert idle.ask(get()).status == 200
        half.send(b"GET / HTTP/1.1\r\nHo")
        body.send(request("POST", "/", "Content-Length: 10"))
        for _ in range(8):
            drip.send(b"G" if not drip.received else b"")
            time.sleep(0.01)
        assert half.answer().status == 408
        assert body.answer().status == 408
        for client in (silent, idle, half, body, drip):
            client.sock.settimeout(5)
            client.rest()  # until the server closes
        assert served.open_connections(0)


def test_a_body_that_arrives_steadily_is_given_the_time() -> None:
    """For longer than ``body_s`` and what the server looks at in between; as many bytes may take ten seconds."""
    with serving(body=MIB, body_s=0.1, bytes_per_s=10_000) as served:
        client = served.client()
        client.send(request("POST", "/", "Content-Length: 100000"))
        for _ in range(10):
            client.send(b"a" * 10_000)
            time.sleep(0.08)
        assert client.answer().json["length"] == 100_000


def test_who_does_not_fetch_answers_gets_no_more_of_them() -> None:
    with serving(unsent=20 * MIB, write_s=0.5) as served, ExitStack() as open_ones:
        before = psutil.Process().memory_info().rss
        for _ in range(40):
            client = served.client()
            open_ones.callback(client.sock.close)
            client.send(get(f"/big/{4 * MIB}") * 6)
        assert served.client().ask(get()).status == 200
        assert served.server._unsent <= 20 * MIB
        assert psutil.Process().memory_info().rss - before < 400 * MIB  # of 960
        assert served.open_connections(0)
    assert served.server._unsent == 0


def test_a_large_answer_arrives_whole_also_at_a_slow_client() -> None:
    with serving() as served:
        client = served.client().send(get(f"/big/{9 * MIB}") + get())
        time.sleep(0.1)
        assert client.answer().body == b"x" * 9 * MIB
        assert client.answer().status == 200


def test_a_handler_can_see_that_its_client_has_gone() -> None:
    with serving(threads=2) as served:
        gone, stays = served.client().send(get("/wait")), served.client().send(get("/wait"))
        wait_until(lambda: len(served.app.seen) == 2, "both requests")
        gone_port = str(gone.sock.getsockname()[1])
        gone.sock.close()
        flags = {environ["REMOTE_PORT"]: environ["kilonova.client_gone"] for environ in served.app.seen}
        wait_until(flags[gone_port], "the end of the connection to be noticed", at_most_s=5)
        assert {port: flag() for port, flag in flags.items()} == {
            gone_port: True,
            str(stays.sock.getsockname()[1]): False,
        }
        served.app.may_go_on.set()
        assert stays.answer().status == 200


def test_chunks_of_one_byte_are_received_as_any_others() -> None:
    with serving() as served:
        sent = request("POST", "/", "Transfer-Encoding: chunked") + chunked(*[b"a"] * 20_000)
        assert served.client().ask(sent).json["length"] == 20_000
