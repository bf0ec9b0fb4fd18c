# SPDX-License-Identifier: Apache-2.0
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kilonova import __version__
from kilonova.cli.application import COMMANDS
from kilonova.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fly"], "fly"),
        (["up", "--speed", "9"], "--speed"),
        (["up", "--hosts", "many"], "--hosts"),
        (["up", "--hosts", "-1"], "--hosts"),
        (["up", "--bind", "8774"], "--bind must be HOST:PORT"),
        (["up", "--identity-port", "70000"], "--identity-port"),
        (["up", "--scenario", "nowhere"], "no scenario or file has the name 'nowhere'"),
        (["up", "--config-file", "/nonexistent.conf"], "--config-file /nonexistent.conf is not a file"),
        (["up", "--no-companions"], "--no-companions needs --config-file"),
        (["up", "--networks", "--no-companions"], "--networks needs Kilonova's own Keystone"),
        (["up", "--networks", "--ovn-address", "127.0.0.1"], "--ovn-address needs --networks and --hypervisor libvirt"),
        (
            ["up", "--networks", "--hypervisor", "libvirt", "--ovn-address", "here"],
            "--ovn-address here is not an IP address",
        ),
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


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"kilonova {__version__}\n"


def test_the_help_shows_every_command_under_its_heading(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    headings = [shown.index(f" {heading} ") for heading in COMMANDS]
    assert headings == sorted(headings)
    for commands, start, end in zip(COMMANDS.values(), headings, [*headings[1:], len(shown)], strict=True):
        assert all(f"│ {command} " in shown[start:end] for command in commands)


_INTERRUPTED_WHEN_IMPORTING = """
import os, signal, sys

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder)
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background may have been told to ignore it
"""


@pytest.mark.parametrize("module", ["typer", "kilonova.cli.commands.up", "kilonova.cli.up.supervisor"])
def test_ctrl_c_ends_a_command_that_is_still_being_imported_without_a_word(module: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_INTERRUPTED_WHEN_IMPORTING)
    ended = subprocess.run(
        (sys.executable, "-m", "kilonova", "up", "--help"),
        env={**os.environ, "PYTHONPATH": str(tmp_path), "INTERRUPT_AT": module},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")
