# SPDX-License-Identifier: Apache-2.0
"""Live migration: copy the running guest, then let the copy run. Until the copying is done it can be aborted.

::

    claim ──▶ prepare ──▶ copy ──▶ activate ──▶ switch ──▶ clean-up ──▶ done
                          └─ point of no return
"""

from functools import partial

from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.workflow import (
    NOTHING,
    Effect,
    Interrupt,
    Run,
    SendToAgent,
    Step,
    Workflow,
    Write,
)
from kilonova.conductor.workflows.endings import done_without_its_host, gone_with_its_host, settle
from kilonova.conductor.workflows.move_steps import (
    abandon,
    advance,
    drop_source,
    return_home,
    switch,
)
from kilonova.conductor.workflows.moves import (
    MoveFacts,
    came_to_nothing,
    claim_destination,
    give_destination_back,
    guest_there,
)
from kilonova.db import moves, server_migrations
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


def _copy(_services: Services, run: Run[MoveFacts]) -> Effect:
    return SendToAgent(run.facts.source, LiveMigrate(run.step_id, run.instance_uuid, run.facts.host))


def _abort(_services: Services, run: Run[MoveFacts]) -> Effect:
    return SendToAgent(run.facts.source, AbortLiveMigration(run.step_id, run.instance_uuid))


def _force(_services: Services, run: Run[MoveFacts]) -> Effect:
    return SendToAgent(run.facts.source, ForceCompleteLiveMigration(run.step_id, run.instance_uuid))


def _activate(_services: Services, run: Run[MoveFacts]) -> Effect:
    return SendToAgent(run.facts.host, ActivateMigrated(run.step_id, run.instance_uuid, run.facts.paused))


def _settle(_services: Services, run: Run[MoveFacts], _power_state: PowerState | None) -> Write:
    def write(tx: Transaction) -> None:
        moves.confirm(tx, server_migrations.get(tx.connection, run.facts.migration))
        settle(tx, run, None, None)

    return write


LIVE_MIGRATE = Workflow(
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
            do=_copy,
            undo=return_home,
            on_reply=advance(MigrationStatus.POST_MIGRATING),
            event="compute_live_migration",
            interrupts={
                Interrupt.ABORT: _abort,
                Interrupt.DELETE: _abort,
                Interrupt.FORCE_COMPLETE: _force,
            },
        ),
        Step("activate", do=_activate, undo=NOTHING, event="compute_post_live_migration_at_destination"),
        Step("switch", do=switch, undo=NOTHING),
        Step("clean-up", do=drop_source, undo=NOTHING, on_reply=done_without_its_host),
    ),
    TRANSITIONS["live-migrate"],
    settle=_settle,
    unwound=came_to_nothing,
    action="live-migration",
    done="migrated",
    point_of_no_return="copy",
    overtaken_by=frozenset({Interrupt.DELETE, Interrupt.ABORT}),
    is_move=True,
)
