# SPDX-License-Identifier: Apache-2.0
"""Completion: the possible words, and the script in a real bash."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kilonova.cli.application import HIDDEN
from kilonova.cli.main import main
from kilonova.cli.shell_completion import SCRIPTS, candidates


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["cap"], ["capacity"]),
        (["--v"], ["--version"]),
        (["jobs", ""], ["cancel", "list", "show"]),
        (["jobs", "sh"], ["show"]),
        (["jobs", "show", "--d"], ["--data"]),
        (["capacity", "--fl"], ["--flavor"]),
        (["capacity", "--flavor", ""], []),
        (["completion", ""], ["bash", "fish", "zsh"]),
        (["no-such-command", ""], []),
        (["capacity", "--flavor", "$(touch x)", "--js"], ["--json"]),
    ],
)
def test_possible_words(words: list[str], found: list[str]) -> None:
    assert candidates(words) == found


def test_commands_that_the_program_runs_itself_are_no_candidates() -> None:
    everything = candidates([])
    assert "up" in everything
    assert not HIDDEN.keys() & set(everything)


@pytest.mark.parametrize("shell", SCRIPTS)
def test_each_shell_has_its_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert script == SCRIPTS[shell]
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=script, text=True, check=True, timeout=60)


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "csh"]) == 2
    assert "csh" in capsys.readouterr().err


def completed(folder: Path, line: str) -> list[str]:
    """Type a line into a bash with the script, and return what it completes the last word to."""
    program = folder / "kilonova"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kilonova "$@"\n')
    program.chmod(0o755)
    words = line.split(" ")
    typed = " ".join(f"'{word}'" for word in words)
    script = (
        f'eval "$(kilonova completion bash)"\nCOMP_WORDS=({typed})\nCOMP_CWORD={len(words) - 1}\n'
        "complete -p kilonova >&2\n_kilonova\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n"
    )
    path = os.pathsep.join([str(folder), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        ["bash", "--norc"], input=script, capture_output=True, text=True, env=environment, check=True, timeout=120
    )
    assert "-F _kilonova kilonova" in done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "found"), [("kilonova capa", ["capacity"]), ("kilonova jobs ", ["cancel", "list", "show"])]
)
def test_a_real_bash_completes_commands(tmp_path: Path, line: str, found: list[str]) -> None:
    assert completed(tmp_path, line) == found


def test_a_real_bash_completes_options_after_words_that_are_no_safe_code(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    assert completed(tmp_path, f"kilonova capacity --flavor $(touch\t{mark});* --imag") == ["--image"]
    assert not mark.exists()
