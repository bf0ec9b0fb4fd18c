# SPDX-License-Identifier: Apache-2.0
"""`kilonova dashboard`: a served page, and configuration errors."""

import urllib.request
from pathlib import Path

import pytest

from kilonova.bundled_services.free_ports import free_ports
from kilonova.cli.main import main
from support.forked_commands import ForkedCommand
from support.waiting import wait_until

GOOD = "auth_url = http://127.0.0.1:1/identity\n"


def conf(folder: Path, text: str) -> str:
    file = folder / "dashboard.conf"
    file.write_text(f"[dashboard]\n{text}")
    return str(file)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/healthcheck", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_it_serves_pages_until_sigterm(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    file, url = conf(tmp_path, f"{GOOD}port = {port}\n"), f"http://127.0.0.1:{port}"
    process = ForkedCommand(["dashboard", "--config-file", file], tmp_path / "dashboard.log")
    try:
        wait_until(lambda: _answers(url), "the dashboard to serve")
        with urllib.request.urlopen(f"{url}/sign-in", timeout=5) as answer:
            assert b"Sign in to Kilonova" in answer.read()
            assert answer.headers["Server"] is None
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "[dashboard] auth_url"),
        (f"{GOOD}public_url = dashboard.example\n", "[dashboard] public_url"),
        (f"{GOOD}public_url = https://dashboard.example/path\n", "[dashboard] public_url"),
        (f"{GOOD}session_idle_timeout = 1\n", "session_idle_timeout"),
        (f"{GOOD}sign_in_attempts = many\n", "sign_in_attempts"),
        (f"{GOOD}cafile = /nonexistent.pem\n", "[dashboard] cafile"),
        (f"{GOOD}cert_file = /nonexistent.pem\n", "/nonexistent.pem"),
    ],
)
def test_bad_settings_are_one_line(tmp_path: Path, text: str, names: str, capsys: pytest.CaptureFixture[str]) -> None:
    (port,) = free_ports(1)
    assert main(["dashboard", "--config-file", conf(tmp_path, f"{text}port = {port}\n")]) == 2
    error = capsys.readouterr().err
    assert names in error
    assert error.count("\n") == 1


def test_it_needs_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dashboard"]) == 2
    assert "--config-file" in capsys.readouterr().err
