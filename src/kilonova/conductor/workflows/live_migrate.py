# SPDX-License-Identifier: Apache-2.0
"""Live migration: copy the running guest, then run the copy. Users can abort the migration until the copy is complete.

::

    claim ──▶ prepare ──▶ copy ──▶ activate ──▶ switch ──▶ clean-up ──▶ done
                          └─ point of no return
"""

from functools import partial

from kilonova.conductor.workflow_engine.effects import Effect, SendToAgent
from kilonova.conductor.workflow_engine.run import Interrupt, Run
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import one_way, sends
from kilonova.conductor.workflow_engine.workflow import Step, Workflow
from kilonova.conductor.workflows.endings import done_without_its_host, gone_with_its_host, settle
from kilonova.conductor.workflows.move_steps import abandon, advance, drop_source, return_home, switch
from kilonova.conductor.workflows.moves import (
    MoveFacts,
    came_to_nothing,
    claim_destination,
    give_destination_back,
    guest_there,
    migration_of,
    source,
)
from kilonova.db import moves
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import (
    AbortLiveMigration,
    ActivateMigrated,
    ForceCompleteLiveMigration,
    LiveMigrate,
    PrepareLiveMigration,
)
from kilonova.model.instance import PowerState
from kilonova.model.server_migration import MigrationStatus, MoveKind
from kilonova.model.transitions import TRANSITIONS


def _prepare(services: Services, run: Run[MoveFacts]) -> Effect:
    guest = guest_there(services, run)
    return SendToAgent(run.facts.host, PrepareLiveMigration(run.step_id, guest, run.facts.source))


def _copy(run: Run[MoveFacts]) -> LiveMigrate:
    return LiveMigrate(run.step_id, run.instance_uuid, run.facts.host)


def _activate(run: Run[MoveFacts]) -> ActivateMigrated:
    return ActivateMigrated(run.step_id, run.instance_uuid, run.facts.paused)


def _migrated(tx: Transaction, run: Run[MoveFacts], _power_state: PowerState | None) -> None:
    moves.confirm(tx, migration_of(tx, run))
    settle(tx, run, None, None)


_abort = sends(AbortLiveMigration, to=source)


LIVE_MIGRATE: Workflow[MoveFacts] = Workflow(
    "live-migrate",
    MoveFacts,
    (
        Step(
            "claim",
            do=partial(claim_destination, kind=MoveKind.LIVE_MIGRATE, becomes=MigrationStatus.PREPARING),
            undo=give_destination_back,
            event="conductor_live_migrate_instance",
        ),
        Step(
            "prepare",
            do=_prepare,
            undo=abandon,
            on_undone=gone_with_its_host,
            on_reply=advance(MigrationStatus.QUEUED),
            event="compute_pre_live_migration",
        ),
        Step(
            "copy",
            do=sends(_copy, to=source),
            undo=return_home,
            on_reply=advance(MigrationStatus.POST_MIGRATING),
            event="compute_live_migration",
            interrupts={
                Interrupt.ABORT: _abort,
                Interrupt.DELETE: _abort,
                Interrupt.FORCE_COMPLETE: sends(ForceCompleteLiveMigration, to=source),
            },
        ),
        one_way("activate", sends(_activate), event="compute_post_live_migration_at_destination"),
        one_way("switch", switch),
        one_way("clean-up", drop_source, on_reply=done_without_its_host),
    ),
    TRANSITIONS["live-migrate"],
    settle=_migrated,
    unwound=came_to_nothing,
    action="live-migration",
    done="migrated",
    point_of_no_return="copy",
    overtaken_by=frozenset({Interrupt.DELETE, Interrupt.ABORT}),
    is_move=True,
)
