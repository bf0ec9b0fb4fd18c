# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from kilonova.cli.main import main
from kilonova.cli.up import default_folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fly"], "fly"),
        (["up", "--speed", "9"], "--speed"),
        (["up", "--hosts", "many"], "--hosts"),
        (["up", "--hosts", "-1"], "--hosts"),
        (["up", "--bind", "8774"], "--bind must be HOST:PORT"),
        (["up", "--identity-port", "70000"], "--identity-port"),
        (["up", "--scenario", "nowhere"], "no scenario and no file is called 'nowhere'"),
        (["up", "--config-file", "/nonexistent.conf"], "--config-file /nonexistent.conf is not a file"),
        (["up", "--no-companions"], "--no-companions needs --config-file"),
        (["up", "--data", "/proc/kilonova"], "cannot use the data folder /proc/kilonova"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("kilonova: ")
    assert output.err.count("\n") == 1
    assert message in output.err


@pytest.mark.parametrize("arguments", [[], ["--help"], ["up", "--help"]])
def test_help_is_no_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    assert "up" in capsys.readouterr().out


def test_the_data_folder_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_folder() == Path("/data/kilonova")
    monkeypatch.setenv("XDG_DATA_HOME", "")
    monkeypatch.setenv("HOME", "/home/someone")
    assert default_folder() == Path("/home/someone/.local/share/kilonova")
