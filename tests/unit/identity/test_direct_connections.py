# SPDX-License-Identifier: Apache-2.0
"""Connections without the work of ``requests``, which answer and fail as those of ``requests`` do."""

import gzip
import json
import logging
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from kilonova.identity.direct_connections import DirectConnections
from support.certificates import Authority
from support.http_clients import Serving, serving

PLAIN: dict[str, Any] = {"timeout": 5.0, "allow_redirects": False, "headers": {"X-Mine": "1"}}


@pytest.fixture
def served() -> Iterator[Serving]:
    with serving() as found:
        yield found


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().endswith(("_PROXY", "_CA_BUNDLE"))]:
        monkeypatch.delenv(name)


def connections() -> DirectConnections:
    return DirectConnections(2)


def test_a_request_and_its_response(served: Serving) -> None:
    session = connections()
    for _ in range(3):
        answer = session.request("POST", f"http://127.0.0.1:{served.port}/a/b?c=d%20e", data=b'{"x": 1}', **PLAIN)
        seen = answer.json()
        assert (answer.status_code, answer.headers["content-type"], answer.reason) == (200, "application/json", "OK")
        assert (seen["REQUEST_METHOD"], seen["PATH_INFO"], seen["QUERY_STRING"]) == ("POST", "/a/b", "c=d%20e")
        assert (seen["HTTP_X_MINE"], seen["body"], seen["CONTENT_LENGTH"]) == ("1", '{"x": 1}', "8")
    assert len({each["REMOTE_PORT"] for each in served.app.seen}) == 1, "the connection is kept"
    assert session.request("GET", f"http://127.0.0.1:{served.port}/none", **PLAIN).content == b""
    assert len(session.request("GET", f"http://127.0.0.1:{served.port}/big/300000", **PLAIN).content) == 300_000


@pytest.mark.parametrize("level", [logging.DEBUG, logging.WARNING])
def test_a_session_of_keystoneauth_logs_requests_and_follows_redirects(
    caplog: pytest.LogCaptureFixture, level: int
) -> None:
    caplog.set_level(level)

    def answer(environ: Any, start_response: Callable[..., Any]) -> list[bytes]:
        headers = [("X-Openstack-Request-Id", "req-theirs"), ("Content-Type", "application/json")]
        if environ["PATH_INFO"] == "/v3":
            start_response("200 OK", headers)
            return [b'{"a": "\xc3\xa9"}']
        start_response("302 Found", [*headers, ("Location", f"http://127.0.0.1:{environ['SERVER_PORT']}/v3")])
        return []

    with serving(answer) as served:
        session = Session(auth=Token(f"http://127.0.0.1:{served.port}", "t"), timeout=5, session=connections())
        for _ in range(2):
            found = session.get(f"http://127.0.0.1:{served.port}/")
            assert (found.json(), found.text, found.status_code) == ({"a": "é"}, '{"a": "é"}', 200)
    assert ("req-theirs" in caplog.text) == (level == logging.DEBUG)


def answering(*headers: tuple[str, str], status: str = "200 OK", body: bytes = b"") -> Callable[..., Any]:
    def answer(_environ: Any, start_response: Callable[..., Any]) -> list[bytes]:
        start_response(status, list(headers))
        return [body]

    return answer


def test_a_redirect_is_returned_and_a_compressed_body_decoded() -> None:
    with serving(answering(("Location", "/elsewhere"), status="302 Found")) as served:
        answer = connections().request("GET", f"http://127.0.0.1:{served.port}/", **PLAIN)
        assert (answer.status_code, answer.headers["Location"]) == (302, "/elsewhere")
    packed = gzip.compress(json.dumps({"a": 1}).encode())
    with serving(answering(("Content-Encoding", "gzip"), body=packed)) as served:
        assert connections().request("GET", f"http://127.0.0.1:{served.port}/", **PLAIN).json() == {"a": 1}


def raised(port: int, *, direct: bool, **more: Any) -> type[BaseException] | None:
    session = connections() if direct else requests.Session()
    try:
        session.request("GET", f"http://127.0.0.1:{port}/", **{**PLAIN, "timeout": 0.3, **more})
    except requests.RequestException as error:
        return type(error)
    return None


@pytest.mark.parametrize("answer", [None, b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"])
def test_failures_are_those_of_requests(answer: bytes | None) -> None:
    """None: nothing is answered; otherwise the connection is closed after these bytes."""
    found = []
    for direct in (True, False):
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def serve(listener: socket.socket = listener) -> None:
                connection, _ = listener.accept()
                connection.recv(4096)
                if answer is None:
                    connection.recv(4096)
                else:
                    connection.sendall(answer)
                connection.close()

            thread = threading.Thread(target=serve)
            thread.start()
            found.append(raised(listener.getsockname()[1], direct=direct))
            thread.join()
    assert found[0] is not None
    assert issubclass(found[0], requests.Timeout) == (answer is None)
    assert issubclass(found[0], requests.Timeout) == issubclass(found[1] or OSError, requests.Timeout)


def test_a_port_without_a_listener() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert raised(port, direct=True) is raised(port, direct=False) is requests.ConnectionError


def test_a_connection_that_the_server_has_closed_is_replaced() -> None:
    session = connections()
    with serving(idle_s=0.05) as served:
        url = f"http://127.0.0.1:{served.port}/"
        assert session.request("GET", url, **PLAIN).status_code == 200
        time.sleep(0.3)
        assert session.request("GET", url, **PLAIN).status_code == 200


@pytest.mark.filterwarnings("ignore:Unverified HTTPS")
def test_tls_options(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), tmp_path / "other"
    stranger.mkdir()
    server, client = authority.certify("server", host="localhost"), authority.certify("client")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.cert_file, server.key_file)
    context.load_verify_locations(authority.ca_file)
    context.verify_mode = ssl.CERT_REQUIRED
    ca, cert = str(authority.ca_file), (str(client.cert_file), str(client.key_file))
    with serving(tls=context) as served:
        url = f"https://localhost:{served.port}/"
        session = connections()
        assert session.request("GET", url, verify=ca, cert=cert, **PLAIN).status_code == 200
        assert session.request("GET", url, verify=False, cert=cert, **PLAIN).status_code == 200
        for verify in (True, str(Authority(stranger).ca_file)):
            with pytest.raises(requests.exceptions.SSLError):
                session.request("GET", url, verify=verify, cert=cert, **PLAIN)
        with pytest.raises(requests.ConnectionError):
            session.request("GET", url, verify=ca, **PLAIN)
        with pytest.raises(requests.exceptions.SSLError):
            session.request("GET", url.replace("localhost", "127.0.0.1"), verify=ca, cert=cert, **PLAIN)


def test_what_only_requests_can_do_is_left_to_it(served: Serving) -> None:
    url = f"http://127.0.0.1:{served.port}/"
    assert connections().request("GET", url, params={"a": "b"}, timeout=5).json()["QUERY_STRING"] == "a=b"
    assert connections().get(url, timeout=5).status_code == 200


@pytest.mark.parametrize(
    ("scheme", "line"), [("http", b"GET http://elsewhere.invalid/x "), ("https", b"CONNECT elsewhere.invalid:443 ")]
)
def test_the_environment_names_a_proxy(
    served: Serving, monkeypatch: pytest.MonkeyPatch, scheme: str, line: bytes
) -> None:
    received: list[bytes] = []

    def take(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        received.append(connection.recv(4096))
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.setenv(f"{scheme}_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        thread = threading.Thread(target=take, args=(proxy,))
        thread.start()
        session = connections()
        assert session.request("GET", f"http://127.0.0.1:{served.port}/direct", **PLAIN).status_code == 200
        with pytest.raises(requests.ConnectionError):
            session.request("GET", f"{scheme}://elsewhere.invalid/x", **PLAIN)
        thread.join()
    assert received[0].startswith(line)


def test_the_environment_names_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path)
    server = authority.certify("server", host="localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.cert_file, server.key_file)
    with serving(tls=context) as served:
        url = f"https://localhost:{served.port}/"
        with pytest.raises(requests.exceptions.SSLError):
            connections().request("GET", url, **PLAIN)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority.ca_file))
        assert connections().request("GET", url, **PLAIN).status_code == 200
