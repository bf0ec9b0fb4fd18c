# SPDX-License-Identifier: Apache-2.0
"""Live migration of a server: start, abort, force completion, progress."""

from collections.abc import Callable, Collection

from kilonova.conductor.operations.moves import NewMove, start_move
from kilonova.conductor.operations.starting import Starter
from kilonova.conductor.workflow_engine.run import Interrupt
from kilonova.conductor.workflows.live_migrate import LIVE_MIGRATE
from kilonova.conductor.workflows.moves import MoveFacts
from kilonova.db import instance_actions, instances, server_migrations
from kilonova.db.core.transaction import Transaction
from kilonova.db.instance_actions import NewAction
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import ConcurrentUpdate
from kilonova.messaging.messages import MigrationProgress
from kilonova.model.instance import TaskState
from kilonova.model.requester import Requester
from kilonova.model.server_migration import MigrationStatus, MigrationType, ServerMigration


class LiveMigrations:
    """Operations on live migrations."""

    def __init__(self, starter: Starter) -> None:
        self._starter = starter

    def begin(self, uuid: str, who: Requester, *, host: str | None = None, forced: bool = False) -> None:
        """Start live-migrating a server.

        ``host``: destination; None to let the scheduler choose. ``forced``: bypass the filters.
        Raises: NotFound, UnexpectedTaskState; ConcurrentUpdate if the server is already on ``host``.
        """
        asked = NewMove(LIVE_MIGRATE, MigrationType.LIVE_MIGRATION, host=host, forced=forced)
        start_move(self._starter, asked, uuid, who)

    def abort(
        self,
        migration: ServerMigration,
        who: Requester,
        states: Collection[MigrationStatus],
        stored: Callable[[], object] = lambda: None,
    ) -> None:
        """Abort a live migration. The migration may still complete before the abort takes effect.

        ``states``: migration statuses in which it may be aborted. ``stored``: called after the commit of the abort and
        before the abort is sent to the host. Raises: ConcurrentUpdate if the migration has another status.
        """
        self._interrupt(migration, Interrupt.ABORT, "live_migration_cancel", who, states, stored)

    def force_complete(
        self,
        migration: ServerMigration,
        who: Requester,
        states: Collection[MigrationStatus],
        stored: Callable[[], object] = lambda: None,
    ) -> None:
        """Force a live migration to complete soon, by pausing the guest until all memory is copied.

        ``states``: migration statuses in which it may be forced. ``stored``: as in :meth:`abort`.
        Raises: ConcurrentUpdate if the migration has another status or is being aborted.
        """
        why = Interrupt.FORCE_COMPLETE
        self._interrupt(migration, why, "live_migration_force_complete", who, states, stored)

    def record_progress(self, message: MigrationProgress) -> None:
        """Record how many bytes a live migration has copied, and how many remain."""
        facts = self._starter.runner.awaited_facts(message)
        if not isinstance(facts, MoveFacts):
            return
        uuid = facts.migration
        copied = {
            name: getattr(message, name) for name in MigrationProgress.__dataclass_fields__ if name.endswith("_bytes")
        }

        def write(tx: Transaction) -> None:
            server_migrations.set_progress(tx, uuid, copied)
            instances.set_progress(tx, message.instance_uuid, {TaskState.MIGRATING}, message.percent)

        self._starter.services.database.write(write)

    def _interrupt(
        self,
        migration: ServerMigration,
        why: Interrupt,
        action: str,
        who: Requester,
        states: Collection[MigrationStatus],
        stored: Callable[[], object],
    ) -> None:
        server = migration.instance_uuid

        def interrupt(tx: Transaction) -> tuple[WorkflowRow, ...]:
            present = server_migrations.get(tx.connection, migration.uuid)
            if present.status not in states or present.migration_type is not MigrationType.LIVE_MIGRATION:
                raise ConcurrentUpdate(f"Migration {present.id} of server {server} is {present.status.value}.")
            rows = self._starter.runner.interrupt(tx, server, why)
            if not rows:
                raise ConcurrentUpdate(f"Migration {present.id} of server {server} is already ending.")
            instance_actions.begin(tx, [NewAction(server, action, who.request_id, who.user_id, who.project_id)])
            return rows

        rows = self._starter.services.database.write(interrupt)
        stored()
        self._starter.runner.interrupted(rows)
