# SPDX-License-Identifier: Apache-2.0
"""Move a running server, and interfere with that."""

from collections.abc import Callable, Collection

from kilonova.conductor.operations.moves import NewMove, start_move
from kilonova.conductor.operations.starting import Starter
from kilonova.conductor.workflow_engine.workflow import Interrupt
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
    """Moves servers that run meanwhile."""

    def __init__(self, starter: Starter) -> None:
        self._starter = starter

    def begin(self, uuid: str, who: Requester, *, host: str | None = None, forced: bool = False) -> None:
        """Start to move a running server, to ``host`` if that is given; ``forced``: whatever the rules say of it.

        Raises: NotFound, UnexpectedTaskState; ConcurrentUpdate when it is on that host by now.
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
        """Have a live migration that is in one of ``states`` end where it began; it may be over first.

        ``stored``: called once it is durable that it has to, and before it does.
        Raises: ConcurrentUpdate when it is in another state.
        """
        self._interrupt(migration, Interrupt.ABORT, "live_migration_cancel", who, states, stored)

    def force_complete(
        self,
        migration: ServerMigration,
        who: Requester,
        states: Collection[MigrationStatus],
        stored: Callable[[], object] = lambda: None,
    ) -> None:
        """Have a live migration that is in one of ``states`` end soon, at the price of a pause.

        ``stored``: as of :meth:`abort`. Raises: ConcurrentUpdate when it is in another state, or is being aborted.
        """
        why = Interrupt.FORCE_COMPLETE
        self._interrupt(migration, why, "live_migration_force_complete", who, states, stored)

    def record_progress(self, message: MigrationProgress) -> None:
        """Note how much a live migration has copied; nobody waits for that."""
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
                raise ConcurrentUpdate(f"Migration {present.id} of server {server} is being ended already.")
            instance_actions.begin(tx, [NewAction(server, action, who.request_id, who.user_id, who.project_id)])
            return rows

        rows = self._starter.services.database.write(interrupt)
        stored()
        self._starter.runner.interrupted(rows)
