# SPDX-License-Identifier: Apache-2.0
"""`make crash-matrix` and `make crash-kills` do the killing, and `make crash-sample` a part of it."""

from crash.starters import INTERRUPTERS, STARTERS
from kilonova.conductor.workflow_engine.workflow import Interrupt
from kilonova.conductor.workflows.registry import REGISTRY


def test_every_workflow_and_every_interrupt_can_be_begun() -> None:
    assert set(STARTERS) == set(REGISTRY), "starters.py has to say how each registered workflow begins"
    assert set(INTERRUPTERS) == set(Interrupt)
