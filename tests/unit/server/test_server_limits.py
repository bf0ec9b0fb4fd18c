# SPDX-License-Identifier: Apache-2.0
"""What clients cannot take: memory, time, threads, connections."""

import resource
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from support.http_clients import Client, Echo, Environ, Serving, chunked, get, request, serving
from support.waiting import wait_until

KIB, MIB = 1 << 10, 1 << 20


def test_a_body_that_is_too_large_is_not_read_and_the_client_is_told() -> None:
    with serving(body=1000, bodies=(("/large", 5 * MIB),)) as served:
        for path, size, refused in (("/a", 1000, False), ("/a", 1001, True), ("/largely", 1001, True)):
            seen = served.client().ask(request("POST", path, body=b"a" * size)).json
            assert (seen.get("kilonova.body_refused") == 413, seen["length"]) == (refused, 0 if refused else size)
        assert served.client().ask(request("POST", "/large/b", body=b"a" * 5 * MIB)).json["length"] == 5 * MIB
        client = served.client()
        client.send(request("PUT", "/a", f"Content-Length: {40 * MIB}"))
        for _ in range(40):  # a client that looks for the answer only when everything is sent
            client.send(b"a" * MIB)
        assert client.answer().json["kilonova.body_refused"] == 413


def test_a_body_without_a_token_is_not_read() -> None:
    with serving(body=1000, token_needed=True) as served:
        assert served.client().ask(request("POST", "/", "Content-Length: 900")).json["kilonova.body_refused"] == 401
        assert served.client().ask(request("POST", "/", "X-Auth-Token: a", body=b"abc")).json["body"] == "abc"
        assert served.client().ask(get()).status == 200


def test_a_small_body_is_read_without_a_token_where_others_than_users_send_it() -> None:
    with serving(body=1000, token_needed=True, tokenless=lambda _, path: 3 * (path == "/posted")) as served:
        assert served.client().ask(request("POST", "/posted", body=b"abc")).json["body"] == "abc"
        assert served.client().ask(request("POST", "/posted", body=b"abcd")).json["kilonova.body_refused"] == 413
        longer = request("POST", "/posted", "Transfer-Encoding: chunked") + b"4\r\nabcd\r\n0\r\n\r\n"
        assert served.client().ask(longer).json["kilonova.body_refused"] == 413
        assert served.client().ask(request("POST", "/", body=b"abc")).json["kilonova.body_refused"] == 401


class Guarded(Echo):
    """Knows one token, as applications with Keystone's middleware in front do."""

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Any:
        token = environ.get("HTTP_X_AUTH_TOKEN")
        if token != "good":
            self.seen.append(environ)
            start_response("401 Unauthorized" if token else "503 Service Unavailable", [("Content-Length", "0")])
            return []
        return super().__call__(environ, start_response)


@pytest.mark.parametrize("path", ["/", "/large/b"])
@pytest.mark.parametrize("framing", [f"Content-Length: {3 * MIB}", "Transfer-Encoding: chunked"])
def test_a_body_with_a_made_up_token_is_not_waited_for(path: str, framing: str) -> None:
    limits: dict[str, Any] = {"body": 4 * MIB, "token_needed": True, "probe_path": "/known"}
    with serving(Guarded(), **limits) as served:
        client = served.client()
        began = time.monotonic()
        assert client.ask(request("POST", path, "X-Auth-Token: made up", framing)).status == 401
        assert client.is_closed()
        pushing = served.client().send(request("POST", path, "X-Auth-Token: made up", framing))
        for _ in range(3 * 16):  # a client that looks for the answer only when everything is sent
            pushing.send(b"10000\r\n" + b"a" * 65_534 + b"\r\n")
            assert served.server._received <= 256 * KIB
        assert pushing.answer().status == 401
        assert time.monotonic() - began < 5


def test_a_body_with_a_known_token_is_read_however_it_comes() -> None:
    with serving(Guarded(), body=4 * MIB, token_needed=True, probe_path="/known") as served:
        whole = request("POST", "/a", "X-Auth-Token: good", body=b"abc")
        assert served.client().ask(whole).json["body"] == "abc"
        assert [seen["PATH_INFO"] for seen in served.app.seen] == ["/a"]  # nobody was asked twice
        for lines in ((), ("Expect: 100-continue",)):
            client = served.client().send(request("PUT", "/a", "X-Auth-Token: good", "Content-Length: 5", *lines))
            if lines:
                assert client.answer().status == 100
            client.send(b"ab")
            time.sleep(0.05)
            assert client.send(b"cde").answer().json["body"] == "abcde"
        slow = served.client().send(request("PUT", "/a", "X-Auth-Token: good", "Transfer-Encoding: chunked"))
        for byte in chunked(b"abc", b"de"):
            slow.send(bytes([byte]))
            time.sleep(0.002)
        answer = slow.answer().json
        assert (answer["body"], answer["CONTENT_LENGTH"]) == ("abcde", "5")
        probes = [seen for seen in served.app.seen if seen["PATH_INFO"] == "/known"]
        assert len(probes) == 3
        assert all((seen["REQUEST_METHOD"], seen["wsgi.input"].read()) == ("GET", b"") for seen in probes)
        big = request("PUT", "/large/c", "X-Auth-Token: good", body=b"a" * 3 * MIB)
        assert served.client().ask(big).json["length"] == 3 * MIB


def test_a_request_is_answered_without_its_body_when_nobody_can_look_at_the_token() -> None:
    with serving(probe_path="/fail") as served:
        seen = served.client().ask(request("PUT", "/a", "X-Auth-Token: b", "Content-Length: 5")).json
    assert (seen["kilonova.body_refused"], seen["length"]) == (401, 0)


def test_slow_bodies_take_no_threads() -> None:
    with serving(threads=2) as served, ExitStack() as open_ones:
        for _ in range(50):
            slow = served.client()
            open_ones.callback(slow.sock.close)
            slow.send(request("POST", "/", "Content-Length: 10000") + b"a")
        began = time.monotonic()
        for _ in range(20):
            assert served.client().ask(request("POST", "/", body=b"abc")).status == 200
        assert time.monotonic() - began < 5


def test_connections_have_an_upper_bound_and_newcomers_get_in() -> None:
    with serving(connections=40) as served, ExitStack() as open_ones:
        for _ in range(300):  # more than there may be, and they come back
            client = served.client()
            open_ones.callback(client.sock.close)
            client.send(b"GET / HT")
            assert len(served.server._connections) <= 40
        for _ in range(20):
            assert served.client().ask(get()).status == 200


def test_a_request_that_is_answered_keeps_its_connection_when_others_must_go() -> None:
    with serving(connections=20) as served, ExitStack() as open_ones:
        busy = served.client().send(get("/wait"))
        wait_until(lambda: served.app.seen, "the request")
        for _ in range(100):
            open_ones.callback(served.client().send(b"G").sock.close)
        served.app.may_go_on.set()
        assert busy.answer().status == 200


def test_unfinished_bodies_of_all_clients_together_are_bounded() -> None:
    with serving(body=MIB, received=4 * MIB) as served, ExitStack() as open_ones:
        for _ in range(30):
            client = served.client()
            open_ones.callback(client.sock.close)
            client.send(request("POST", "/", f"Content-Length: {MIB}") + b"a" * 900_000)
            assert served.server._received <= 5 * MIB
        assert served.client().ask(request("POST", "/", body=b"abc")).json["body"] == "abc"
    assert served.server._received == 0


def test_the_end_waits_for_what_is_being_answered() -> None:
    with serving(stop_s=5.0) as served:
        idle, busy = served.client(), served.client().send(get("/wait"))
        assert idle.ask(get("/first")).status == 200
        wait_until(lambda: len(served.app.seen) == 2, "both requests")
        served.server.stopping = True
        served.app.may_go_on.set()
        answer = busy.answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
    assert idle.is_closed()


def test_the_end_does_not_wait_for_ever() -> None:
    with serving(stop_s=0.2) as served:
        served.client().send(get("/wait"))
        wait_until(lambda: served.app.seen, "the request")
        began = time.monotonic()
        served.server.stop()
        assert time.monotonic() - began < 3
        served.app.may_go_on.set()


def attackers(served: Serving, count: int) -> list[Client]:
    made = []
    for number in range(count):
        client = served.client()
        kind = number % 3
        if kind == 0:
            client.send(request("POST", "/", "Content-Length: 9000"))
        elif kind == 1:
            client.send(b"GET / HTTP/1.1\r\nHost: x\r\nA: ")
        made.append(client)
    return made


@pytest.mark.alone
@pytest.mark.slow
def test_others_do_not_notice_hundreds_of_slow_clients_that_come_back() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard > 0 else soft, hard))
    with serving(head_s=0.5, body_s=0.5, idle_s=0.5, linger_s=0.2) as served:

        def median(seconds: float) -> float:
            client, taken, end = served.client(), [], time.monotonic() + seconds
            while time.monotonic() < end:
                began = time.monotonic()
                assert client.ask(request("POST", "/", body=b"abc")).status == 200
                taken.append(time.monotonic() - began)
                time.sleep(0.002)
            return statistics.median(taken)

        for _ in range(2):  # longer than every time-out
            slow = attackers(served, 300)
            for client in slow:
                client.sock.setblocking(False)
            assert median(0.4) < 0.2
            for client in slow[::2]:
                client.sock.close()
            assert median(0.4) < 0.2
        assert served.open_connections(0)
