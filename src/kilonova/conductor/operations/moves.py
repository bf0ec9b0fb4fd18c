# SPDX-License-Identifier: Apache-2.0
"""Resize and migrate a server, and end that; what all moves have in common when they begin."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from kilonova.conductor.operations.abandoned_moves import give_up, give_up_all
from kilonova.conductor.operations.starting import Starter
from kilonova.conductor.workflow_engine import server_log
from kilonova.conductor.workflow_engine.workflow import Interrupt, Workflow
from kilonova.conductor.workflows.confirm_resize import CONFIRM_RESIZE
from kilonova.conductor.workflows.moves import MoveFacts
from kilonova.conductor.workflows.resize import MIGRATE, RESIZE
from kilonova.conductor.workflows.revert_resize import REVERT_RESIZE
from kilonova.db import instances, moves, server_migrations
from kilonova.db.core.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import ConcurrentUpdate, NotFound, UnexpectedTaskState
from kilonova.identifiers import new_uuid
from kilonova.model.flavor import Flavor
from kilonova.model.instance import Instance, PowerState, VmState
from kilonova.model.quota import Limits
from kilonova.model.requester import Requester
from kilonova.model.server_migration import MigrationStatus, MigrationType, ServerMigration

#: So many resizes are confirmed before others have their turn.
_CONFIRMED_TOGETHER = 50


class Moves:
    """Moves servers that are off meanwhile."""

    def __init__(self, starter: Starter) -> None:
        self._starter = starter

    def resize(
        self,
        instance: Instance,
        flavor: Flavor,
        who: Requester,
        *,
        stays: bool,
        limits: Limits | None = None,
        disk_config: str | None = None,
    ) -> None:
        """Start to give a server another flavor, on another host or, if it may stay (``stays``), on the same.

        ``limits``: the quotas in force where they are not in the database. ``disk_config``: another one, too.
        Raises: NotFound, UnexpectedTaskState, OverQuota.
        """
        migration = migration_of(instance, MigrationType.RESIZE, MigrationStatus.PRE_MIGRATING, who, flavor)
        facts = facts_of(instance, migration, stays=stays)
        values = {} if disk_config is None else {"disk_config": disk_config}
        start_move(self._starter, RESIZE, facts, instance, migration, who, limits, values)

    def migrate(self, instance: Instance, who: Requester, *, host: str | None = None) -> None:
        """Start to move a server that is off meanwhile, to ``host`` if that is given.

        Raises: NotFound, UnexpectedTaskState.
        """
        migration = migration_of(instance, MigrationType.MIGRATION, MigrationStatus.PRE_MIGRATING, who)
        start_move(self._starter, MIGRATE, facts_of(instance, migration, requested=host), instance, migration, who)

    def confirm_resize(self, instance: Instance, who: Requester) -> None:
        """Start to give up the source. Raises: NotFound without such a move; UnexpectedTaskState, ConcurrentUpdate."""
        self._end_move(CONFIRM_RESIZE, MigrationStatus.CONFIRMING, instance, who)

    def revert_resize(self, instance: Instance, who: Requester) -> None:
        """Start to go back to the source. Raises: as :meth:`confirm_resize`."""
        self._end_move(REVERT_RESIZE, MigrationStatus.REVERTING, instance, who)

    def confirm_unconfirmed(self, window: timedelta) -> int:
        """Confirm some of the resizes that have waited for longer than that; return how many.

        By the clock of the database. Ask again until there are none left. Where the server is no longer what the resize
        made of it, because its state was reset, the migration ends with an error, and the source is given up.
        """
        database = self._starter.services.database
        with database.read() as connection:
            due = server_migrations.finished_before(connection, database.clock.now() - window, _CONFIRMED_TOGETHER)
            servers = {each.uuid: each for each in instances.get_many(connection, [each.instance_uuid for each in due])}
        return sum(self._confirm(migration, servers[migration.instance_uuid], window) for migration in due)

    def _confirm(self, migration: ServerMigration, server: Instance, window: timedelta) -> bool:
        """Tell whether we did it: another process, or a user, may have been first."""
        try:
            if server.vm_state is VmState.RESIZED:
                who = Requester(f"req-{new_uuid()}", "", "")
                self.confirm_resize(server, who)
                server_log.confirmed_by_itself(server.uuid, who.request_id, f"{window.total_seconds():g}")
            else:
                self._give_source_up(migration, server)
        except (NotFound, UnexpectedTaskState, ConcurrentUpdate):
            return False
        return True

    def _give_source_up(self, migration: ServerMigration, server: Instance) -> None:
        """Begin what ends a migration with an error, as a part of the action that it belongs to."""

        def begin(tx: Transaction) -> WorkflowRow:
            _require_finished(tx, migration)
            return give_up(tx, self._starter, server, migration)

        self._starter.runner.begin([self._starter.services.database.write(begin)])

    def _end_move(
        self, workflow: Workflow[MoveFacts], status: MigrationStatus, instance: Instance, who: Requester
    ) -> None:
        with self._starter.services.database.read() as connection:
            migration = server_migrations.find_open(connection, instance.uuid)
        if migration is None or migration.status is not MigrationStatus.FINISHED:
            raise NotFound(f"Instance {instance.uuid} has not been resized.")
        runs = instance.power_state is not PowerState.SHUTDOWN
        facts = MoveFacts(migration.uuid, migration.source_host, migration.dest_host, runs=runs)

        self._starter.start(workflow, facts, instance, who, lambda tx: _take(tx, migration, status))


def _take(tx: Transaction, migration: ServerMigration, status: MigrationStatus) -> None:
    """Begin to end a move. Raises: ConcurrentUpdate when somebody else does so already."""
    _require_finished(tx, migration)
    server_migrations.set_status(tx, migration.uuid, {MigrationStatus.FINISHED}, status)


def _require_finished(tx: Transaction, migration: ServerMigration) -> None:
    """Raise ConcurrentUpdate when another request has a move already: to be "there already" is success for others."""
    if server_migrations.get(tx.connection, migration.uuid).status is not MigrationStatus.FINISHED:
        raise ConcurrentUpdate(f"Migration {migration.uuid} is being ended already.")


def start_move(
    starter: Starter,
    workflow: Workflow[MoveFacts],
    facts: MoveFacts,
    instance: Instance,
    migration: ServerMigration,
    who: Requester,
    limits: Limits | None = None,
    values: Mapping[str, Any] = MappingProxyType({}),
    *,
    check: Callable[[Transaction], object] = lambda _tx: None,
    why: Interrupt = Interrupt.OTHER_ACTION,
) -> None:
    """Store a migration with its workflow. ``values``: columns of the instance that change with it.

    ``check(tx)``: what is looked at before that; ``why``: what else is under way has to end. Moves of the server that
    nobody can end any more are given up first.
    Raises: UnexpectedTaskState when the server is no longer where it was; ConcurrentUpdate when it is no longer what it
    was: ``facts`` say whether its guest runs.
    """

    def look(tx: Transaction) -> None:
        check(tx)
        give_up_all(tx, starter, instance)

    def begin(tx: Transaction) -> None:
        present = instances.get(tx.connection, instance.uuid)
        if any(getattr(present, name) != getattr(instance, name) for name in ("node", "flavor", "vm_state")):
            raise ConcurrentUpdate(f"Instance {instance.uuid} was changed meanwhile.")
        moves.begin(tx, migration, starter.services.limits, limits)
        if values:
            instances.change(tx, instance.uuid, **values)

    starter.start(workflow, facts, instance, who, begin, check=look, why=why)


def migration_of(
    instance: Instance,
    kind: MigrationType,
    status: MigrationStatus,
    who: Requester,
    flavor: Flavor | None = None,
) -> ServerMigration:
    """Return the record of a move that begins."""
    source = instance.host or "", instance.node or ""
    asked = who.request_id, who.user_id, who.project_id
    return ServerMigration(
        new_uuid(), instance.uuid, kind, status, *source, instance.flavor, flavor or instance.flavor, *asked
    )


def facts_of(instance: Instance, migration: ServerMigration, **wanted: Any) -> MoveFacts:
    """Return what a move that begins remembers. ``wanted``: what was asked for, by name."""
    stopped, paused = instance.vm_state is VmState.STOPPED, instance.vm_state is VmState.PAUSED
    return MoveFacts(migration.uuid, migration.source_host, runs=not stopped, paused=paused, **wanted)
