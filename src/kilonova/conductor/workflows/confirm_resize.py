# SPDX-License-Identifier: Apache-2.0
"""Confirm a resize or a cold migration: the source's guest goes, then all that the migration holds, at once."""

from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.workflow import NOTHING, Effect, Run, Step, Workflow, Write, complete_or_fail
from kilonova.conductor.workflows.endings import done_without_its_host, settle, settled_state
from kilonova.conductor.workflows.move_steps import drop_source
from kilonova.conductor.workflows.moves import MoveFacts
from kilonova.db import moves, server_migrations
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import StepReply
from kilonova.model.instance import PowerState
from kilonova.model.transitions import TRANSITIONS


def _dropped(services: Services, run: Run[MoveFacts], reply: StepReply) -> Effect:
    """Nobody waits for a source that is given up: what it keeps goes when it is back."""
    said = done_without_its_host if run.facts.forsaken else complete_or_fail
    return said(services, run, reply)


def _settle(_services: Services, run: Run[MoveFacts], _power_state: PowerState | None) -> Write:
    def write(tx: Transaction) -> None:
        migration = server_migrations.get(tx.connection, run.facts.migration)
        if run.facts.forsaken:
            moves.forsake(tx, migration)
        else:
            moves.confirm(tx, migration)
            settle(tx, run, settled_state(run, otherwise=not run.facts.runs_there), None)

    return write


CONFIRM_RESIZE = Workflow(
    "confirm-resize",
    MoveFacts,
    (Step("drop-source", do=drop_source, undo=NOTHING, on_reply=_dropped, event="compute_confirm_resize"),),
    TRANSITIONS["confirm-resize"],
    settle=_settle,
    action="confirmResize",
    done="confirmed",
    forward_only=True,
    overtaken_by=frozenset(),
)
