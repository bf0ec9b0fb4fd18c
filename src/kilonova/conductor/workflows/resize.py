# SPDX-License-Identifier: Apache-2.0
"""Resize and cold migration: power off at the source, start at the destination, then wait for confirm or revert.

::

    claim ──▶ move-away ──▶ switch ──▶ ports ──▶ finish ──▶ plugged ──▶ resume ──▶ (resized: confirm or revert)
"""

from functools import partial

from kilonova.conductor.workflow_engine.effects import Effect, SendToAgent
from kilonova.conductor.workflow_engine.run import Run
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import one_way
from kilonova.conductor.workflow_engine.workflow import Step, Workflow
from kilonova.conductor.workflows.endings import settled
from kilonova.conductor.workflows.move_steps import (
    abandon,
    advance,
    bind_at_home,
    bind_there,
    left_halfway,
    move_away,
    return_home,
    set_status,
    switch,
)
from kilonova.conductor.workflows.moves import (
    MoveFacts,
    came_to_nothing,
    claim_destination,
    give_destination_back,
    guest_there,
)
from kilonova.conductor.workflows.network_steps import (
    guest_made,
    has_networks,
    held,
    plugged_step,
    ports_step,
    resume_step,
)
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import FinishMove
from kilonova.model.instance import PowerState, TaskState
from kilonova.model.server_migration import MigrationStatus, MoveKind
from kilonova.model.transitions import TRANSITIONS


def _finish(services: Services, run: Run[MoveFacts]) -> Effect:
    facts = run.facts
    guest = held(guest_there(services, run), facts)
    return SendToAgent(facts.host, FinishMove(run.step_id, guest, facts.source, facts.runs))


def _resized(tx: Transaction, run: Run[MoveFacts], power_state: PowerState | None) -> None:
    settled(tx, run, power_state)
    set_status(tx, run, MigrationStatus.FINISHED)


_FINISH_EVENT = "compute_finish_resize"


def _workflow(kind: str, move: MoveKind) -> Workflow[MoveFacts]:
    return Workflow(
        kind,
        MoveFacts,
        (
            Step(
                "claim",
                do=partial(claim_destination, kind=move, becomes=MigrationStatus.MIGRATING),
                undo=give_destination_back,
                event="conductor_migrate_server",
                blocking=has_networks,  # asks the network service what the ports require
            ),
            Step(
                "move-away",
                do=move_away,
                undo=return_home,
                on_skipped=left_halfway,
                on_reply=advance(MigrationStatus.POST_MIGRATING, touched=True),
                shows=TaskState.RESIZE_MIGRATING,
                event="compute_resize_instance",
            ),
            one_way("switch", switch, shows=TaskState.RESIZE_MIGRATED),
            ports_step(bind_there, bind_at_home, event=_FINISH_EVENT),
            Step(
                "finish",
                do=_finish,
                undo=abandon,
                on_reply=guest_made,
                on_skipped=partial(left_halfway, drops_made=True),
                shows=TaskState.RESIZE_FINISH,
                event=_FINISH_EVENT,
            ),
            plugged_step(_FINISH_EVENT),
            resume_step(_FINISH_EVENT),
        ),
        TRANSITIONS[kind],
        settle=_resized,
        unwound=came_to_nothing,
        action=kind,
        done="resized" if kind == "resize" else "migrated",
        is_move=True,
    )


RESIZE = _workflow("resize", MoveKind.RESIZE)
MIGRATE = _workflow("migrate", MoveKind.COLD_MIGRATE)
