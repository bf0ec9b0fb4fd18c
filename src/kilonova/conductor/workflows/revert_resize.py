# SPDX-License-Identifier: Apache-2.0
"""Revert a resize or a cold migration: remove the guest at the destination, restore and start it at the source."""

from operator import attrgetter

from kilonova.conductor.workflow_engine.effects import Effect, SendToAgent
from kilonova.conductor.workflow_engine.run import Run
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import one_way, writes
from kilonova.conductor.workflow_engine.workflow import Workflow
from kilonova.conductor.workflows.endings import settled
from kilonova.conductor.workflows.move_steps import abandon
from kilonova.conductor.workflows.moves import MoveFacts, guest_at_home, migration_of
from kilonova.conductor.workflows.network_steps import (
    guest_made,
    held,
    plugged_step,
    ports_step,
    rebind_anyway,
    resume_step,
)
from kilonova.db import moves
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import ReturnHome
from kilonova.model.instance import PowerState
from kilonova.model.transitions import TRANSITIONS


def _bind_ports(services: Services, run: Run[MoveFacts]) -> Effect:
    facts = run.facts
    return rebind_anyway(services, run, facts.source, facts.profiles_at_home, starts=facts.runs_there)


def _return_home(services: Services, run: Run[MoveFacts]) -> Effect:
    facts, guest = run.facts, held(guest_at_home(services, run), run.facts)
    return SendToAgent(facts.source, ReturnHome(run.step_id, guest, facts.runs_there))


def _switch_back(tx: Transaction, run: Run[MoveFacts]) -> None:
    moves.revert(tx, migration_of(tx, run))


def _reverted(tx: Transaction, run: Run[MoveFacts], power_state: PowerState | None) -> None:
    settled(tx, run, power_state, otherwise=not run.facts.runs_there)


_EVENT = "compute_finish_revert_resize"
REVERT_RESIZE: Workflow[MoveFacts] = Workflow(
    "revert-resize",
    MoveFacts,
    (
        one_way("abandon", abandon, event="compute_revert_resize"),
        one_way("switch-back", writes(_switch_back)),
        ports_step(_bind_ports, event=_EVENT),
        one_way("return-home", _return_home, on_reply=guest_made, event=_EVENT),
        plugged_step(_EVENT, may_fail=False),
        resume_step(_EVENT, at=attrgetter("source")),
    ),
    TRANSITIONS["revert-resize"],
    settle=_reverted,
    action="revertResize",
    done="reverted",
    forward_only=True,
    overtaken_by=frozenset(),
    is_move=True,
)
