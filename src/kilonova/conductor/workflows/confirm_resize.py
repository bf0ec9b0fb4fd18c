# SPDX-License-Identifier: Apache-2.0
"""Confirm a resize or a cold migration: remove the guest on the source, then release the migration's resources."""

from kilonova.conductor.workflow_engine.effects import Effect
from kilonova.conductor.workflow_engine.run import Run
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import one_way
from kilonova.conductor.workflow_engine.workflow import Workflow, complete_or_fail
from kilonova.conductor.workflows.endings import done_without_its_host, settled
from kilonova.conductor.workflows.move_steps import drop_source
from kilonova.conductor.workflows.moves import MoveFacts, migration_of
from kilonova.db import moves
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import StepReply
from kilonova.model.instance import PowerState
from kilonova.model.transitions import TRANSITIONS


def _dropped(services: Services, run: Run[MoveFacts], reply: StepReply) -> Effect:
    """Reply handler of "drop-source". In an abandoned move, the step is also done if the source is unreachable.

    Then a removal record for the source is written.
    """
    said = done_without_its_host if run.facts.abandoned else complete_or_fail
    return said(services, run, reply)


def _confirmed(tx: Transaction, run: Run[MoveFacts], _power_state: PowerState | None) -> None:
    if run.facts.abandoned:
        moves.forsake(tx, migration_of(tx, run))
    else:
        moves.confirm(tx, migration_of(tx, run))
        settled(tx, run, None, otherwise=not run.facts.runs_there)


CONFIRM_RESIZE = Workflow(
    "confirm-resize",
    MoveFacts,
    (one_way("drop-source", drop_source, on_reply=_dropped, event="compute_confirm_resize"),),
    TRANSITIONS["confirm-resize"],
    settle=_confirmed,
    action="confirmResize",
    done="confirmed",
    forward_only=True,
    overtaken_by=frozenset(),
)
