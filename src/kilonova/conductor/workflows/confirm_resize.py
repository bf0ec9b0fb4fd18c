# SPDX-License-Identifier: Apache-2.0
"""Confirm a resize or a cold migration: the source's guest goes, then all that the migration holds, at once."""

from kilonova.conductor.services import Services
from kilonova.conductor.workflow import NOTHING, Effect, Ended, Run, SendToAgent, Step, Workflow, Write
from kilonova.conductor.workflows.moves import MoveFacts, settled_as
from kilonova.db import moves, server_migrations
from kilonova.db.transaction import Transaction
from kilonova.messaging.messages import ConfirmMove
from kilonova.model.instance import PowerState
from kilonova.model.transitions import TRANSITIONS


def _drop_source(_services: Services, run: Run[MoveFacts]) -> Effect:
    return SendToAgent(run.facts.source, ConfirmMove(run.step_id, run.instance_uuid))


def _settle(_services: Services, run: Run[MoveFacts], _power_state: PowerState | None) -> Write:
    def settle(tx: Transaction) -> None:
        moves.confirm(tx, server_migrations.get(tx.connection, run.facts.migration))
        settled_as(run, tx, run.facts.settled_state, None)

    return settle


def _unwound(_services: Services, _run: Run[MoveFacts]) -> Ended:
    return Ended()


CONFIRM_RESIZE = Workflow(
    "confirm-resize",
    MoveFacts,
    (Step("drop-source", do=_drop_source, undo=NOTHING, event="compute_confirm_resize"),),
    TRANSITIONS["confirm-resize"],
    settle=_settle,
    unwound=_unwound,
    action="confirmResize",
    done="confirmed",
    forward_only=True,
    overtaken_by=frozenset(),
)
