# SPDX-License-Identifier: Apache-2.0
"""A user with a token of the API gets through the proxy to the console of a simulated guest; others do not."""

import logging
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import sqlalchemy as sa

from kilonova.console_proxy.proxy import ConsoleProxy, ProxyLimits
from kilonova.console_proxy.tokens import ComputeApi
from kilonova.db import instances
from kilonova.db.core import tables as t
from kilonova.model.console import ConsoleProtocol
from support.control import Control, start_control
from support.viewers import connect, listening, refused, see_screen
from support.waiting import wait_until

OPTIONS = "[serial_console]\nenabled = true\n"


class Adapter:
    """Asks the API of a control process in this process, as keystoneauth's adapter asks over HTTP."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self.is_away = False

    def get(self, path: str, *, headers: Any, raise_exc: bool, log: bool) -> Any:
        assert headers["OpenStack-API-Version"] == "compute 2.31"
        if self.is_away:
            return SimpleNamespace(status_code=503)
        answer = self._control.admin.at("2.31").get(path)
        return SimpleNamespace(status_code=answer.status, json=lambda: answer.body)


@dataclass
class Consoles:
    control: Control
    adapter: Adapter
    proxy: ConsoleProxy
    vnc: int
    serial: int

    def url(self, server: str, kind: str = "novnc") -> str:
        body = {"remote_console": {"protocol": "vnc" if kind == "novnc" else "serial", "type": kind}}
        answer = self.control.member.at("2.6").post(f"/servers/{server}/remote-consoles", body)
        assert answer.status == 200, answer.body
        return str(answer.body["remote_console"]["url"])

    def token(self, server: str, kind: str = "novnc") -> str:
        query = parse_qs(urlsplit(self.url(server, kind)).query)
        return query["token"][0] if "token" in query else query["path"][0].removeprefix("?token=")


@pytest.fixture(scope="module")
def control(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    folder = tmp_path_factory.mktemp("console_proxy")
    shutil.copy(sqlite_template, folder / "kilonova.db")
    started = start_control(folder, more=OPTIONS)
    started.add_flavor()
    yield started
    started.process.close()


Start = Callable[..., Consoles]


@pytest.fixture(scope="module")
def start(control: Control) -> Iterator[Start]:
    started: list[ConsoleProxy] = []

    def new(limits: ProxyLimits | None = None, **options: Any) -> Consoles:
        vnc, serial = listening(), listening()
        adapter = Adapter(control)
        kinds = [(ConsoleProtocol.VNC, vnc), (ConsoleProtocol.SERIAL, serial)]
        proxy = ConsoleProxy(ComputeApi(adapter), kinds, limits or ProxyLimits(), web=None, **options)
        ports = vnc.getsockname()[1], serial.getsockname()[1]
        proxy.start()
        started.append(proxy)
        return Consoles(control, adapter, proxy, *ports)

    yield new
    for each in started:
        each.stop()


@pytest.fixture(scope="module")
def consoles(start: Start) -> Consoles:
    return start(allowed_origins=["dashboard.example"])


@pytest.fixture(scope="module")
def server(control: Control) -> str:
    return str(control.boot()["id"])


@pytest.mark.parametrize("version", [3, 7, 8])
def test_a_viewer_sees_the_screen_of_the_guest(consoles: Consoles, server: str, version: int) -> None:
    viewer = connect(consoles.vnc, f"/?token={consoles.token(server)}")
    assert viewer.websocket.subprotocol == "binary"
    assert see_screen(viewer, version) == f"Kilonova simulated guest {server}"
    assert consoles.proxy.in_use == 1
    viewer.close()
    wait_until(lambda: consoles.proxy.in_use == 0, "the end of the console")


@pytest.mark.parametrize(
    ("target", "cookie"),
    [
        ("/websockify?token={token}", None),
        ("/websockify?path=%3Ftoken%3D{token}", None),
        ("/websockify", "token={token}"),
        ("/websockify", "theme=dark; bad[=x; token={token}; path=/"),
    ],
)
def test_every_place_where_clients_have_the_token(
    consoles: Consoles, server: str, target: str, cookie: str | None
) -> None:
    token = consoles.token(server)
    viewer = connect(consoles.vnc, target.format(token=token), cookie=cookie and cookie.format(token=token))
    assert see_screen(viewer)
    viewer.close()


def test_a_terminal_talks_to_the_serial_port(consoles: Consoles, server: str) -> None:
    url = consoles.url(server, "serial")
    assert url.startswith("ws://")
    terminal = connect(consoles.serial, f"/?{urlsplit(url).query}", subprotocols=["binary", "base64"])
    terminal.read_until(b"login:")
    terminal.websocket.send("root\n")  # as text, which some clients send
    terminal.read_until(b"Simulated guests accept no login.")
    terminal.close()
    without = connect(consoles.serial, f"/?token={consoles.token(server, 'serial')}", subprotocols=None)
    assert without.read(10)
    without.close()


def test_tokens_that_do_not_count(consoles: Consoles, control: Control) -> None:
    server = control.boot()["id"]
    token = consoles.token(server)
    for target in (
        "/", "/?token=", "/?token=" + "0" * 36, f"/?token=bad{token}", "/?token=../servers", f"/?path={'x' * 9}",
        f"/?token={token}&token=other-token", "/?path=%3Ftoken%3Dbad" + token,
    ):  # fmt: skip
        assert refused(consoles.vnc, target) == 403, target
    assert refused(consoles.vnc, f"/?token={token}") == 101
    control.process.database.write(lambda tx: instances.change(tx, server, host="elsewhere"))
    assert refused(consoles.vnc, f"/?token={token}") == 403


def test_a_token_that_has_expired(consoles: Consoles, control: Control) -> None:
    token = consoles.token(control.boot()["id"])
    assert refused(consoles.vnc, f"/?token={token}") == 101
    expire_all(control)
    assert refused(consoles.vnc, f"/?token={token}") == 403


def expire_all(control: Control) -> None:
    gone = sa.update(t.console_auth_tokens).values(expires_at=control.process.database.clock.now())
    control.process.database.write(lambda tx: tx.execute(gone))


def test_tokens_of_the_other_kind(consoles: Consoles, server: str) -> None:
    terminal = connect(consoles.serial, f"/?token={consoles.token(server)}")
    assert terminal.end() == (1008, "The token is for another type of console.")
    terminal.close()
    viewer = connect(consoles.vnc, f"/?token={consoles.token(server, 'serial')}")
    assert viewer.end() == (1011, "The console is not a VNC console.")
    viewer.close()


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:{port}", 101),
        ("http://127.0.0.1", 101),
        ("https://dashboard.example", 101),
        ("https://DASHBOARD.example:8443", 101),
        ("https://evil.example", 403),
        ("https://dashboard.example.evil.example", 403),
        ("null", 403),
        ("file://127.0.0.1", 403),
        ("http://[", 403),
    ],
)
def test_pages_of_other_sites_use_no_console(consoles: Consoles, server: str, origin: str, status: int) -> None:
    """A browser sends the cookie of whoever looks at the page."""
    cookie = f"token={consoles.token(server)}"
    assert refused(consoles.vnc, "/", cookie=cookie, origin=origin.format(port=consoles.vnc)) == status


def test_what_stands_before_the_proxy_may_have_the_tls(consoles: Consoles, server: str) -> None:
    options = {"header": ["X-Forwarded-Proto: https"]}
    for origin, status in (("http://127.0.0.1", 403), ("https://127.0.0.1", 101)):
        token = consoles.token(server)
        assert refused(consoles.vnc, f"/?token={token}", origin=origin, **options) == status


@pytest.mark.parametrize("kind", ["novnc", "serial"])
@pytest.mark.parametrize("what", ["stop", "delete"])
def test_a_console_ends_with_its_guest(consoles: Consoles, control: Control, kind: str, what: str) -> None:
    server = control.boot()["id"]
    viewer = connect(consoles.vnc if kind == "novnc" else consoles.serial, f"/?token={consoles.token(server, kind)}")
    if kind == "novnc":
        see_screen(viewer)
    if what == "stop":
        assert control.member.post(f"/servers/{server}/action", {"os-stop": None}).status == 202
    else:
        assert control.member.delete(f"/servers/{server}").status == 204
    control.settle()
    assert viewer.end() == (1000, "The console has ended.")
    viewer.close()
    wait_until(lambda: consoles.proxy.in_use == 0, "the end of the console")


def test_fifty_at_once(start: Start, control: Control) -> None:
    consoles = start(ProxyLimits(of_one_server=50))
    server = control.boot()["id"]
    tokens = [consoles.token(server) for _ in range(50)]
    with ThreadPoolExecutor(50) as pool:
        viewers = list(pool.map(lambda token: connect(consoles.vnc, f"/?token={token}"), tokens))
        assert set(pool.map(see_screen, viewers)) == {f"Kilonova simulated guest {server}"}
        assert consoles.proxy.in_use == 50
        assert refused(consoles.vnc, f"/?token={tokens[0]}") == 503
        list(pool.map(lambda viewer: viewer.close(), viewers))
    wait_until(lambda: consoles.proxy.in_use == 0, "the end of the console")
    assert refused(consoles.vnc, f"/?token={tokens[0]}") == 101


def test_one_server_does_not_take_all(start: Start, control: Control, server: str) -> None:
    consoles = start(ProxyLimits(connections=3, of_one_server=2))
    other, third = control.boot()["id"], control.boot()["id"]
    opened = [connect(consoles.vnc, f"/?token={consoles.token(server)}") for _ in range(2)]
    wait_until(lambda: consoles.proxy.in_use == 2, "two consoles")
    assert refused(consoles.vnc, f"/?token={consoles.token(server)}") == 503
    opened.append(connect(consoles.vnc, f"/?token={consoles.token(other)}"))
    wait_until(lambda: consoles.proxy.in_use == 3, "three consoles")
    assert refused(consoles.serial, f"/?token={consoles.token(third, 'serial')}") == 503
    for viewer in opened:
        viewer.close()


def test_nobody_is_told_anything_while_the_api_is_away(start: Start, server: str) -> None:
    consoles = start()
    token = consoles.token(server)
    consoles.adapter.is_away = True
    assert refused(consoles.vnc, f"/?token={token}") == 503
    consoles.adapter.is_away = False
    assert refused(consoles.vnc, f"/?token={token}") == 101


def test_consoles_may_end_with_their_tokens(start: Start, control: Control) -> None:
    consoles = start(ProxyLimits(recheck_s=0.05))
    server = control.boot()["id"]
    viewer = connect(consoles.vnc, f"/?token={consoles.token(server)}")
    see_screen(viewer)
    consoles.adapter.is_away = True  # which is no reason to end
    viewer.websocket.ping()
    expire_all(control)
    assert consoles.proxy.in_use == 1
    consoles.adapter.is_away = False
    assert viewer.end() == (1008, "The token is no longer valid.")


def test_no_token_is_logged(consoles: Consoles, server: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    tokens = [consoles.token(server), consoles.token(server, "serial"), "1234-of-nobody-at-all"]
    connect(consoles.vnc, f"/?token={tokens[0]}").close()
    connect(consoles.serial, f"/?token={tokens[1]}").close()
    assert refused(consoles.vnc, f"/?token={tokens[2]}") == 403
    wait_until(lambda: consoles.proxy.in_use == 0 and "end of the console" in caplog.text, "the log")
    said = [record.getMessage() for record in caplog.records if record.name.startswith("kilonova.")]
    assert any(f"console of server {server}" in each for each in said)
    assert any("/os-console-auth-tokens/***" in each for each in said)  # in the log of the API
    assert not [each for each in said for token in tokens if token in each]


def test_a_stop_ends_consoles(start: Start, server: str) -> None:
    consoles = start()
    viewer = connect(consoles.vnc, f"/?token={consoles.token(server)}")
    see_screen(viewer)
    with ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(consoles.proxy.stop)
        assert viewer.end() == (1001, "The console proxy is stopping.")
        viewer.close()
        stopped.result()
    with pytest.raises(ConnectionRefusedError):
        connect(consoles.vnc, "/")
