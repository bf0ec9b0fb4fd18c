# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from pathlib import Path

import pytest

from crash.starters import INTERRUPTERS, STARTERS
from kilonova.conductor.registry import REGISTRY
from kilonova.conductor.workflow import Interrupt


def run(module: str, *arguments: str) -> str:
    """Run one of the makers of crashes in a process of its own, since it forks; return what it says."""
    command = [sys.executable, "-m", module, *arguments]
    folder = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_workflow_and_every_interrupt_can_be_begun() -> None:
    assert set(STARTERS) == set(REGISTRY), "starters.py has to say how each registered workflow begins"
    assert set(INTERRUPTERS) == set(Interrupt)


@pytest.mark.slow
def test_a_sample_of_the_matrix() -> None:
    """`make crash-matrix` is the whole."""
    assert " 0 violations" in run("crash.matrix", "--sample", "8", "--seed", "3")


@pytest.mark.slow
def test_a_sample_of_the_kills() -> None:
    """`make crash-kills` is the whole."""
    assert " 0 violations" in run("crash.kills", "--kills", "4", "--commands", "0", "--seed", "3")
