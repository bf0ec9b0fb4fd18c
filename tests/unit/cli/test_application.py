# SPDX-License-Identifier: Apache-2.0
"""Errors of commands as one line, without control characters and tracebacks."""

import errno
import subprocess
import sys

import pytest

from kilonova.cli.application import run
from support.cli import said_of


def test_what_a_terminal_would_obey_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    said = said_of(["servers", "set-hints", "vm", "a\x1b[31m\nb\u202e"], 2, capsys)
    assert said[:-1].isprintable()


@pytest.mark.parametrize(
    ("redirection", "code", "words"),
    [(">&-", 0, ""), ("> /dev/full", 1, "No space left"), ("| true", 1, "")],
)
def test_an_output_that_nobody_takes_is_no_traceback(redirection: str, code: int, words: str) -> None:
    command = f"set -o pipefail; {sys.executable} -m kilonova docs notifications {redirection}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert done.stderr.count("\n") == bool(words)


def test_what_the_system_refuses_about_a_file_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    def command(**_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/etc/shadow")

    assert run(command, ["policy"]) == 1
    assert capsys.readouterr().err == "kilonova: /etc/shadow: Permission denied\n"
