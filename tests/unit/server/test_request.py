# SPDX-License-Identifier: Apache-2.0
"""What reaches the application, and what never does."""

from collections.abc import Iterator

import pytest

from support.http_clients import Serving, chunked, get, request, serving


@pytest.fixture(scope="module")
def echo() -> Iterator[Serving]:
    with serving(body=100_000) as started:
        yield started


def test_a_request_and_its_environment(echo: Serving) -> None:
    client = echo.client()
    answer = client.ask(
        get("/a%20b/%C3%A9?q=1&r=%20", "X-Auth-Token: t", "Cookie: a=1", "Cookie: b=2", "Via: 1", "Via: 2")
    )
    seen = answer.json
    assert answer.status == 200
    assert seen["PATH_INFO"].encode("latin-1").decode() == "/a b/é"
    assert seen["QUERY_STRING"] == "q=1&r=%20"
    assert (seen["REQUEST_METHOD"], seen["SERVER_PROTOCOL"], seen["SCRIPT_NAME"]) == ("GET", "HTTP/1.1", "")
    assert (seen["HTTP_X_AUTH_TOKEN"], seen["HTTP_COOKIE"], seen["HTTP_VIA"]) == ("t", "a=1; b=2", "1,2")
    assert seen["REMOTE_ADDR"] == "127.0.0.1"
    assert seen["SERVER_PORT"] == str(echo.port)
    assert seen["wsgi.url_scheme"] == "http"
    assert not {"CONTENT_TYPE", "CONTENT_LENGTH"} & seen.keys()  # what a client does not send is not there
    assert answer.headers["date"]


def test_a_header_with_an_underscore_is_dropped(echo: Serving) -> None:
    lines = ["X_Auth_Token: admin", "X-Auth-Token: alice", "X_Roles: admin", "Content_Length: 5", "Content_Type: a"]
    seen = echo.client().ask(get("/", *lines)).json
    assert seen["HTTP_X_AUTH_TOKEN"] == "alice"
    assert not {"HTTP_X_ROLES", "CONTENT_LENGTH", "CONTENT_TYPE"} & seen.keys()


def test_a_variable_of_the_process_is_no_header(echo: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_X_ROLES", "admin")
    assert "HTTP_X_ROLES" not in echo.client().ask(get()).json


@pytest.mark.parametrize("body", [b"", b"{}", b"y" * 99_999], ids=len)
def test_a_body_arrives_whole_with_its_length(echo: Serving, body: bytes) -> None:
    client = echo.client()
    seen = client.ask(request("POST", "/", "Content-Type: a/b", body=body)).json
    assert (seen["body"], seen["CONTENT_LENGTH"], seen["CONTENT_TYPE"]) == (body.decode(), str(len(body)), "a/b")
    assert client.ask(get()).status == 200


def test_a_chunked_body_is_told_by_its_length(echo: Serving) -> None:
    client = echo.client()
    head = request("PUT", "/", "Transfer-Encoding: chunked", "Trailer: X-Auth-Token")
    trailers = b"3;name=value\r\nabc\r\n2\r\nde\r\n0\r\nX-Auth-Token: admin\r\n\r\n"
    for part in (head, trailers[:7], trailers[7:]):
        client.send(part)
    seen = client.answer().json
    assert (seen["body"], seen["CONTENT_LENGTH"]) == ("abcde", "5")
    assert not {"HTTP_TRANSFER_ENCODING", "HTTP_X_AUTH_TOKEN"} & seen.keys()  # a trailer is no header
    assert client.ask(get()).status == 200


def test_pipelined_requests_are_answered_in_order(echo: Serving) -> None:
    client = echo.client()
    wanted = [b"", b"1", b"22"] * 20
    client.send(b"".join(request("POST", f"/{n}", body=body) for n, body in enumerate(wanted)))
    for number, body in enumerate(wanted):
        seen = client.answer().json
        assert (seen["PATH_INFO"], seen["body"]) == (f"/{number}", body.decode())


def test_a_request_may_come_byte_by_byte(echo: Serving) -> None:
    client = echo.client()
    for byte in request("POST", "/slow", body=b"abc"):
        client.send(bytes([byte]))
    assert client.answer().json["body"] == "abc"


def test_head_has_the_headers_and_no_body(echo: Serving) -> None:
    client = echo.client()
    assert int(client.ask(request("HEAD", "/"), method="HEAD").headers["content-length"]) > 0
    assert client.ask(get()).status == 200


def test_an_answer_without_content_has_no_length(echo: Serving) -> None:
    client = echo.client()
    answer = client.ask(get("/none"))
    assert answer.status == 204
    assert "content-length" not in answer.headers
    assert client.ask(get()).status == 200


@pytest.mark.parametrize("count", [0, 1, 300_000])
def test_an_answer_in_pieces(echo: Serving, count: int) -> None:
    client = echo.client()
    answer = client.ask(get(f"/pieces/{count}"))
    assert answer.body == b"onetwo" * count
    assert ("content-length" in answer.headers) is (count < 300_000)  # a large one is sent while it is made
    assert client.ask(get()).status == 200
    old = echo.client()
    assert old.ask(get(f"/pieces/{count}", version="1.0")).body == b"onetwo" * count


def test_a_client_that_waits_to_be_asked_for_the_body(echo: Serving) -> None:
    client = echo.client()
    client.send(request("POST", "/", "Content-Length: 3", "Expect: 100-continue"))
    assert client.answer().status == 100
    assert client.ask(b"abc").json["body"] == "abc"
    client.send(request("POST", "/", "Expect: 100-continue", body=b"abc"))  # it does not wait, so it is not asked
    assert client.answer().status == 200


@pytest.mark.parametrize(
    ("version", "header", "stays"),
    [
        ("1.1", "A: b", True),
        ("1.1", "Connection: close", False),
        ("1.0", "A: b", False),
        ("1.0", "Connection: keep-alive", True),
    ],
)
def test_when_the_connection_stays(echo: Serving, version: str, header: str, stays: bool) -> None:
    client = echo.client()
    answer = client.ask(get("/", header, version=version))
    assert answer.status == 200
    assert client.is_closed(0.2) is not stays
    assert answer.headers.get("connection", "") == ("close" if not stays else "keep-alive" if version == "1.0" else "")


def test_a_client_that_sends_nothing_more_gets_its_answer(echo: Serving) -> None:
    client = echo.client()
    client.send(request("POST", "/", body=b"abc"))
    client.sock.shutdown(1)
    assert client.answer().json["body"] == "abc"
    assert client.is_closed()


def test_an_upgrade_is_not_made(echo: Serving) -> None:
    client = echo.client()
    answer = client.ask(get("/", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AA"))
    assert answer.status == 200


def test_an_absolute_url(echo: Serving) -> None:
    assert echo.client().ask(get("http://other/a/b?c=d")).json["PATH_INFO"] == "/a/b"


@pytest.mark.parametrize("path", ["/fail"])
def test_an_exception_ends_the_request_and_not_the_thread(echo: Serving, path: str) -> None:
    for _ in range(12):
        assert echo.client().ask(get(path)).status == 500
    assert echo.client().ask(get()).status == 200


POST = b"POST / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n"
BAD = {
    "no request": b"hello\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "unknown version": b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "no Host": b"GET / HTTP/1.1\r\n\r\n",
    "two Hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "two tokens": b"GET / HTTP/1.1\r\nHost: a\r\nX-Auth-Token: a\r\nX-Auth-Token: admin\r\n\r\n",
    "two tokens, written differently": b"GET / HTTP/1.1\r\nHost: a\r\nx-auth-token: a\r\nX-AUTH-TOKEN: admin\r\n\r\n",
    "length and chunks": POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": CHUNKED + b"Content-Length: 4\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    "the same length twice": POST + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd",
    "a list of lengths": POST + b"Content-Length: 4, 4\r\n\r\nabcd",
    "a negative length": POST + b"Content-Length: -4\r\n\r\n",
    "a length with a sign": POST + b"Content-Length: +4\r\n\r\nabcd",
    "a length in hex": POST + b"Content-Length: 0x4\r\n\r\nabcd",
    "a huge length": POST + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n",
    "a space before the colon": b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length : 4\r\n\r\nabcd",
    "a folded header": b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
    "a null in a header": b"GET / HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n",
    "a bare line feed": b"GET / HTTP/1.1\nHost: x\n\n",
    "a bare carriage return": b"GET / HTTP/1.1\r\nHost: x\rA: b\r\n\r\n",
    "chunked in HTTP/1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a coding before chunked": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked before a coding": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "chunked twice": CHUNKED + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "not quite chunked": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a bad chunk": CHUNKED + b"\r\nzz\r\nab\r\n0\r\n\r\n",
    "a chunk with a sign": CHUNKED + b"\r\n+2\r\nab\r\n0\r\n\r\n",
    "a chunk that is longer": CHUNKED + b"\r\n2\r\nabcd\r\n0\r\n\r\n",
    "a huge chunk": CHUNKED + b"\r\n" + b"f" * 20 + b"\r\nab",
    "a strange expectation": POST + b"Expect: miracles\r\nContent-Length: 1\r\n\r\na",
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_clear_request_is_refused_and_ends_the_connection(echo: Serving, name: str) -> None:
    seen = len(echo.app.seen)
    client = echo.client()
    answer = client.ask(BAD[name])
    assert answer.status in {400, 413, 417, 501, 505}
    assert answer.headers["connection"] == "close"
    assert client.is_closed()
    assert not any(environ["CONTENT_LENGTH"] != "0" for environ in echo.app.seen[seen:])  # at most a 413 in its words


def test_nothing_that_follows_a_bad_request_is_answered(echo: Serving) -> None:
    client = echo.client()
    smuggled = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + get(
        "/next"
    )
    client.send(get("/first") + smuggled)
    assert client.answer().json["PATH_INFO"] == "/first"
    assert client.answer().status == 400
    assert client.rest() == b""
    assert echo.app.seen[-1]["PATH_INFO"] == "/first"


def test_nothing_that_follows_the_last_request_is_answered(echo: Serving) -> None:
    client = echo.client()
    client.send(get("/last", "Connection: close") + get("/next"))
    assert client.answer().json["PATH_INFO"] == "/last"
    assert b"/next" not in client.rest()
    assert echo.app.seen[-1]["PATH_INFO"] == "/last"


def test_a_chunked_body_of_two_megabytes_is_refused_while_it_arrives(echo: Serving) -> None:
    client = echo.client()
    client.send(request("POST", "/", "Transfer-Encoding: chunked") + chunked(*[b"z" * 50_000] * 40))
    assert client.answer().json["kilonova.body_refused"] == 413
