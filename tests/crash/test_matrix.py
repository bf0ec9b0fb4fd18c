# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from pathlib import Path

import pytest

from crash.matrix import courses
from crash.starters import INTERRUPTERS, STARTERS
from kilonova.conductor.registry import REGISTRY
from kilonova.conductor.workflow import Interrupt


def test_every_workflow_and_every_interrupt_can_be_begun() -> None:
    assert set(STARTERS) == set(REGISTRY), "starters.py has to say how each registered workflow begins"
    assert set(INTERRUPTERS) == set(Interrupt)
    steps = {(kind, step.name) for kind, workflow in REGISTRY.items() for step in workflow.steps}
    disturbed = {(course.kind, course.breaks or course.interrupted) for course in courses()}
    assert steps <= disturbed


@pytest.mark.slow
def test_a_sample_of_the_matrix() -> None:
    """`make crash-matrix` is the whole."""
    done = subprocess.run(
        [sys.executable, "-m", "crash.matrix", "--sample", "12", "--seed", "3"],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 violations" in done.stdout
