# SPDX-License-Identifier: Apache-2.0
"""A user gets the address of a console, and with its token a proxy finds a guest that talks."""

import shutil
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import sqlalchemy as sa

from kilonova.db import instances
from kilonova.db.core import tables as t
from support.api_client import Answer
from support.control import Control, start_control

OPTIONS = """
[vnc]
novncproxy_base_url = https://consoles.example/vnc.html?autoconnect=1
[serial_console]
enabled = true
[spice]
enabled = true
"""


@pytest.fixture(scope="module")
def control(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    folder = tmp_path_factory.mktemp("consoles")
    shutil.copy(sqlite_template, folder / "kilonova.db")
    started = start_control(folder, more=OPTIONS)
    started.add_flavor()
    yield started
    started.process.close()


@pytest.fixture(scope="module")
def server(control: Control) -> str:
    return str(control.boot()["id"])


def ask(control: Control, server: str, protocol: str = "vnc", kind: str = "novnc", at: str = "2.104") -> Answer:
    body = {"remote_console": {"protocol": protocol, "type": kind}}
    return control.member.at(at).post(f"/servers/{server}/remote-consoles", body)


def act(control: Control, server: str, action: str, kind: str, at: str = "2.5") -> Answer:
    return control.member.at(at).post(f"/servers/{server}/action", {action: {"type": kind}})


def token_of(answer: Answer) -> str:
    assert answer.status == 200, answer.body
    url = answer.body.get("remote_console", answer.body.get("console"))["url"]
    query = parse_qs(urlsplit(url).query)
    return str(parse_qs(query["path"][0].lstrip("?"))["token"][0] if "path" in query else query["token"][0])


def found(control: Control, token: str, at: str = "2.104") -> Answer:
    return control.admin.at(at).get(f"/os-console-auth-tokens/{token}")


def test_a_proxy_finds_the_guest(control: Control, server: str) -> None:
    answer = ask(control, server)
    view = answer.body["remote_console"]
    token = token_of(answer)
    url = f"https://consoles.example/vnc.html?autoconnect=1&path=%3Ftoken%3D{token}"
    assert view == {"protocol": "vnc", "type": "novnc", "url": url}
    console = found(control, token).body["console"]
    port = console.pop("port")
    expected = {"instance_uuid": server, "host": "127.0.0.1", "internal_access_path": None, "tls_port": None}
    assert console == expected
    assert "tls_port" not in found(control, token, at="2.98").body["console"]
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        assert connection.recv(12) == b"RFB 003.008\n"
    assert token not in repr(control.everything())


def test_until_2_5_there_are_actions(control: Control, server: str) -> None:
    answer = act(control, server, "os-getVNCConsole", "novnc")
    assert answer.body["console"]["type"] == "novnc"
    assert found(control, token_of(answer), at="2.31").status == 200
    answer = act(control, server, "os-getSerialConsole", "serial")
    assert answer.body["console"]["url"].startswith("ws://127.0.0.1:6083/?token=")
    assert found(control, token_of(answer)).status == 200
    assert act(control, server, "os-getVNCConsole", "novnc", at="2.6").status == 404
    assert ask(control, server, at="2.5").status == 404


@pytest.mark.parametrize(
    ("protocol", "kind", "at", "status"),
    [
        ("serial", "serial", "2.6", 200),
        ("vnc", "xvpvnc", "2.6", 400),
        ("rdp", "rdp-html5", "2.6", 400),
        ("vnc", "serial", "2.6", 400),
        ("mks", "webmks", "2.7", 400),
        ("mks", "webmks", "2.8", 400),
        ("spice", "spice-html5", "2.6", 501),
        ("spice", "spice-direct", "2.98", 400),
        ("spice", "spice-direct", "2.99", 501),
        ("telnet", "novnc", "2.99", 400),
    ],
)
def test_types(control: Control, server: str, protocol: str, kind: str, at: str, status: int) -> None:
    answer = ask(control, server, protocol, kind, at)
    assert answer.status == status, answer.body
    if status != 200:
        assert "node" not in answer.fault[1]


def test_bad_bodies_of_actions(control: Control, server: str) -> None:
    for action, kind in (
        ("os-getVNCConsole", "serial"),
        ("os-getVNCConsole", "xvpvnc"),
        ("os-getRDPConsole", "rdp-html5"),
    ):
        assert act(control, server, action, kind).status == 400
    assert control.member.at("2.1").post(f"/servers/{server}/action", {"os-getVNCConsole": {}}).status == 400


def test_tokens_of_nobody(control: Control, server: str) -> None:
    token = token_of(ask(control, server))
    assert found(control, "nonsense").fault == ("itemNotFound", "Token not found")
    assert found(control, token, at="2.30").status == 400
    assert control.member.get(f"/os-console-auth-tokens/{token}").status == 403
    assert control.stranger.post(f"/servers/{server}/remote-consoles", {
        "remote_console": {"protocol": "vnc", "type": "novnc"}
    }).status == 404  # fmt: skip


def test_a_token_counts_until_it_expires_and_is_forgotten(control: Control, server: str) -> None:
    token, later = token_of(ask(control, server)), token_of(ask(control, server))
    database, tokens = control.process.database, t.console_auth_tokens
    first = sa.select(tokens.c.token_hash).order_by(tokens.c.expires_at.desc()).offset(1).limit(1)

    def age(tx: object) -> None:
        hashed = tx.execute(first).scalar_one()  # type: ignore[attr-defined]
        gone = sa.update(tokens).where(tokens.c.token_hash == hashed)
        tx.execute(gone.values(expires_at=database.clock.now()))  # type: ignore[attr-defined]

    database.write(age)
    assert (found(control, token).status, found(control, later).status) == (404, 200)
    consoles = control.process.conductor.operations.consoles
    assert consoles.forget_expired(timedelta(0)) == 1
    assert consoles.forget_expired(timedelta(0)) == 0
    assert found(control, later).status == 200


def test_a_server_has_no_end_of_tokens(control: Control) -> None:
    uuid = control.boot()["id"]
    oldest = token_of(ask(control, uuid))
    for _ in range(100):
        token = token_of(ask(control, uuid))
    assert (found(control, oldest).status, found(control, token).status) == (404, 200)


def test_a_token_ends_with_the_stay_of_its_server(control: Control) -> None:
    uuid = control.boot()["id"]
    token = token_of(ask(control, uuid))
    host = control.admin.get(f"/servers/{uuid}").body["server"]["OS-EXT-SRV-ATTR:host"]
    for place, status in (("elsewhere", 404), (host, 200)):
        control.process.database.write(lambda tx, place=place: instances.change(tx, uuid, host=place))  # type: ignore[misc]
        assert found(control, token).status == status
    control.member.delete(f"/servers/{uuid}")
    control.settle()
    assert found(control, token).status == 404


def test_a_guest_that_does_not_run_has_none(control: Control) -> None:
    control.add_flavor("9", vcpus=64)
    assert ask(control, control.boot(flavorRef="9")["id"]).fault[0] == "conflictingRequest"
    uuid = control.boot()["id"]
    port = found(control, token_of(ask(control, uuid))).body["console"]["port"]
    control.member.post(f"/servers/{uuid}/action", {"os-stop": None})
    control.settle()
    answer = ask(control, uuid)
    assert (answer.status, answer.fault[1].endswith("its guest does not run.")) == (409, True)
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        assert connection.recv(12) == b""
