# SPDX-License-Identifier: Apache-2.0
"""Tests of the crash matrix's tables.

`make crash-matrix` and `make crash-kills` run all kills, `make crash-sample` a part.
"""

from crash.starters import INTERRUPTERS, STARTERS
from kilonova.conductor.workflow_engine.run import Interrupt
from kilonova.conductor.workflows.registry import REGISTRY


def test_every_workflow_and_every_interrupt_can_be_begun() -> None:
    assert set(STARTERS) == set(REGISTRY), "starters.py needs an entry for each registered workflow"
    assert set(INTERRUPTERS) == set(Interrupt)
