# SPDX-License-Identifier: Apache-2.0
"""Revert a resize or a cold migration: the destination's guest goes, the server gets back what it had, and starts."""

from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.workflow import NOTHING, Completed, Effect, Run, Step, Workflow, Write
from kilonova.conductor.workflows.endings import settle, settled_state
from kilonova.conductor.workflows.move_steps import abandon, return_home
from kilonova.conductor.workflows.moves import MoveFacts
from kilonova.db import moves, server_migrations
from kilonova.db.core.transaction import Transaction
from kilonova.model.instance import PowerState
from kilonova.model.transitions import TRANSITIONS


def _switch_back(_services: Services, run: Run[MoveFacts]) -> Effect:
    def write(tx: Transaction) -> None:
        moves.revert(tx, server_migrations.get(tx.connection, run.facts.migration))

    return Completed(write=write)


def _settle(_services: Services, run: Run[MoveFacts], power_state: PowerState | None) -> Write:
    return lambda tx: settle(tx, run, settled_state(run, otherwise=not run.facts.runs_there), power_state)


REVERT_RESIZE = Workflow(
    "revert-resize",
    MoveFacts,
    (
        Step("abandon", do=abandon, undo=NOTHING, event="compute_revert_resize"),
        Step("switch-back", do=_switch_back, undo=NOTHING),
        Step("return-home", do=return_home, undo=NOTHING, event="compute_finish_revert_resize"),
    ),
    TRANSITIONS["revert-resize"],
    settle=_settle,
    action="revertResize",
    done="reverted",
    forward_only=True,
    overtaken_by=frozenset(),
    is_move=True,
)
