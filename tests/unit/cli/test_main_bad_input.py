# SPDX-License-Identifier: Apache-2.0
"""What commands say to files, addresses and texts that are none: one line, exit code 2, or 1 for what may pass."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import quote, unquote

import pytest

from support.cli import said_of

_BINARY = bytes(range(128, 256))


@pytest.mark.parametrize("command", [["policy", "list"], ["status", "upgrade-check"], ["compute"], ["db", "upgrade"]])
def test_a_configuration_file_that_is_none_is_named(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    binary = tmp_path / "binary.conf"
    binary.write_bytes(_BINARY)
    for file in (tmp_path, binary, tmp_path / "missing.conf"):
        assert str(file) in said_of([*command, "--config-file", str(file)], 2, capsys)


def test_a_value_that_leads_back_to_itself_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "circle.conf"
    file.write_text("[database]\nconnection = $connection\n")
    assert "[database] connection" in said_of(["policy", "list", "--config-file", str(file)], 2, capsys)


@pytest.mark.parametrize("command", [["db", "upgrade"], ["status", "upgrade-check"], ["placement", "audit"]])
@pytest.mark.parametrize(
    "url", ["postgresql://me:secret@host:port/k", "me:secret@host", "oracle://me:secret@host/k", "sqlite://"]
)
def test_a_database_that_cannot_be_is_named_without_its_password(
    command: list[str], url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "k.conf"
    file.write_text(f"[database]\nconnection = {url}\n")
    said = said_of([*command, "--config-file", str(file)], 2, capsys)
    assert "[database] connection" in said
    assert "secret" not in said


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["db", "upgrade"], 1),
        (["read-only", "off"], 1),
        (["placement", "audit"], 2),  # 1 tells that something was found
        (["read-only", "status"], 2),
    ],
)
def test_a_database_server_that_is_away_may_come_back(
    command: list[str], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "k.conf"
    file.write_text("[database]\nconnection = postgresql://me:secret@127.0.0.1:1/k\n")
    said = said_of([*command, "--config-file", str(file)], code, capsys)
    assert "[database] connection" in said
    assert "secret" not in said


@pytest.mark.parametrize(
    "content",
    [b": : {", b"- 1", b"clouds: 3", _BINARY, b"clouds: {kilonova: 3}", b"clouds: {kilonova: {auth: 3}}"],
)
@pytest.mark.parametrize("given", ["--data", "OS_CLIENT_CONFIG_FILE", "XDG_DATA_HOME"])
def test_a_clouds_yaml_that_is_none_is_named(
    given: str, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "kilonova"
    folder.mkdir()
    (folder / "clouds.yaml").write_bytes(content)
    for name in ("OS_CLOUD", "OS_CLIENT_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    if given == "XDG_DATA_HOME":
        monkeypatch.setenv(given, str(tmp_path))
    elif given != "--data":
        monkeypatch.setenv(given, str(folder / "clouds.yaml"))
    options = [given, str(folder)] if given == "--data" else []
    assert str(folder / "clouds.yaml") in said_of(["servers", "count", *options], 2, capsys)


@pytest.mark.parametrize(
    ("command", "code"), [(["servers", "count"], 1), (["audit", "rules"], 2), (["audit", "isolation"], 2)]
)
def test_a_cloud_that_is_away_is_no_finding(
    command: list[str], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    login = "auth_url: 'http://127.0.0.1:1', username: a, password: b, project_name: c, user_domain_name: Default"
    (tmp_path / "clouds.yaml").write_text(f"clouds: {{kilonova: {{auth: {{{login}, project_domain_name: Default}}}}}}")
    assert "http://127.0.0.1:1" in said_of([*command, "--data", str(tmp_path)], code, capsys)


class OddService(BaseHTTPRequestHandler):
    """Answers each path with the status that the path begins with, and with the rest of it."""

    def do_GET(self) -> None:
        status, _, rest = unquote(self.path).removeprefix("/").partition(":")
        body = rest.partition("!")[0].encode()
        self.send_response(int(status))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
        pass


@pytest.fixture(scope="module")
def odd_service() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), OddService) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("command", [["servers", "count"], ["hosts", "--json"], ["explain", "vm"], ["audit", "rules"]])
@pytest.mark.parametrize(
    "answer", ["200:<html>", "200:", "200:[1]", "200:null", '200:"x"', "200:{", "500:<h1>\r\nno\n"]
)
def test_what_no_service_of_a_cloud_answers(
    command: list[str], answer: str, odd_service: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    login = f"endpoint: '{odd_service}/{quote(answer, safe='')}!', token: t"
    (tmp_path / "clouds.yaml").write_text(f"clouds: {{kilonova: {{auth_type: admin_token, auth: {{{login}}}}}}}")
    code = 2 if command[0] == "audit" else 1
    assert "service answered" in said_of([*command, "--data", str(tmp_path)], code, capsys)


def test_a_field_that_is_not_in_an_answer(odd_service: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    login = f"endpoint: '{odd_service}/200:%7B%7D!', token: t"
    (tmp_path / "clouds.yaml").write_text(f"clouds: {{kilonova: {{auth_type: admin_token, auth: {{{login}}}}}}}")
    assert "without the field 'count'" in said_of(["servers", "count", "--data", str(tmp_path)], 1, capsys)
