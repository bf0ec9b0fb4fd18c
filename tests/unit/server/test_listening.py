# SPDX-License-Identifier: Apache-2.0
import resource
import socket
import ssl
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from kilonova.errors import ConfigurationError, Unavailable
from kilonova.server.listening import connections_possible, listen, listen_together, tls_context
from support.http_clients import get, request, serving


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", key, "-out", cert),
        ],
        check=True,
        capture_output=True,
    )
    return cert, key


def test_https(certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    trusting = ssl.create_default_context(cafile=str(cert))
    with serving(tls=tls_context(str(cert), str(key), "test"), body=5 << 20, head_s=0.5) as served:
        silent, plain = served.client(), served.client()
        client = served.client(trusting)
        seen = client.ask(get("/", "A: b")).json
        assert seen["wsgi.url_scheme"] == "https"
        assert client.ask(request("POST", "/", body=b"a" * (3 << 20))).json["length"] == 3 << 20
        assert len(client.ask(get(f"/big/{9 << 20}")).body) == 9 << 20
        assert client.ask(get()).status == 200
        plain.send(get())
        assert plain.is_closed()
        assert silent.is_closed()  # a handshake that does not come has its time, too


def test_a_certificate_that_cannot_be_used_is_named(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    cert, key = certificate
    with pytest.raises(ConfigurationError, match=r"\[api\] cert_file: .*nowhere.pem .*No such file"):
        tls_context(str(tmp_path / "nowhere.pem"), None, "[api] cert_file")
    (tmp_path / "text").write_text("no certificate")
    with pytest.raises(ConfigurationError, match="cannot be used"):
        tls_context(str(tmp_path / "text"), str(key), "[api] cert_file")
    with pytest.raises(ConfigurationError, match="cannot be used"):
        tls_context(str(cert), str(cert), "[api] cert_file")


def test_a_port_that_is_in_use_is_named_and_not_shared() -> None:
    with listen("127.0.0.1", 0, "first") as first:
        port = first.getsockname()[1]
        assert first.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT) == 0
        with pytest.raises(
            Unavailable, match=rf"\[api\] bind: 127.0.0.1:{port} cannot be used: Address already in use"
        ):
            listen("127.0.0.1", port, "[api] bind")


def test_listeners_that_share_a_port_each_get_connections_and_exclude_others() -> None:
    listeners = listen_together("127.0.0.1", 0, "test", 3)
    port = listeners[0].getsockname()[1]
    assert {each.getsockname()[1] for each in listeners} == {port}
    with ExitStack() as stack:
        for each in listeners:
            stack.enter_context(each)
        for count in (1, 2):  # shared and not shared
            with pytest.raises(Unavailable, match="Address already in use"):
                listen_together("127.0.0.1", port, "[api] bind", count)
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(300)]
        accepted = [_accept_all(each) for each in listeners]
    assert sum(accepted) == len(clients)
    assert all(count > 40 for count in accepted)


def test_a_single_listener_is_not_shared() -> None:
    (listener,) = listen_together("127.0.0.1", 0, "test", 1)
    with listener:
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT) == 0


def _accept_all(listener: socket.socket) -> int:
    count = 0
    while True:
        try:
            listener.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1


def test_an_address_that_is_none_is_named() -> None:
    with pytest.raises(Unavailable, match=r"no\.such\.host\.invalid"):
        listen("no.such.host.invalid", 0, "[api] bind")


def test_the_limit_of_open_files_is_raised_as_far_as_it_goes() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(600, hard), hard))
        possible = connections_possible(700)
        assert possible == min(700, hard - 256)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= possible + 256
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
