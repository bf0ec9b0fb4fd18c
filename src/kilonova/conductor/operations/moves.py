# SPDX-License-Identifier: Apache-2.0
"""Resize and migrate a server, and end that; what all moves have in common when they begin."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any

from kilonova.conductor.operations.abandoned_moves import give_up, give_up_all
from kilonova.conductor.operations.starting import Starter, WithServer, nothing
from kilonova.conductor.workflow_engine import server_log
from kilonova.conductor.workflow_engine.workflow import Interrupt, Workflow
from kilonova.conductor.workflows.confirm_resize import CONFIRM_RESIZE
from kilonova.conductor.workflows.moves import FIRST_STATUS, MoveFacts
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
        uuid: str,
        flavor: Flavor,
        who: Requester,
        *,
        stays: bool,
        limits: Limits | None = None,
        disk_config: str | None = None,
    ) -> None:
        """Start to give a server another flavor, on another host or, if it may stay (``stays``), on the same.

        ``limits``: the quotas in force where they are not in the database. ``disk_config``: another one, too.
        Raises: NotFound, UnexpectedTaskState, OverQuota; ConcurrentUpdate when it has that flavor by now, or a bigger
        root disk.
        """
        asked = NewMove(RESIZE, MigrationType.RESIZE, flavor, stays=stays)
        values = {} if disk_config is None else {"disk_config": disk_config}
        start_move(self._starter, asked, uuid, who, limits, values)

    def migrate(self, uuid: str, who: Requester, *, host: str | None = None) -> None:
        """Start to move a server that is off meanwhile, to ``host`` if that is given.

        Raises: NotFound, UnexpectedTaskState; ConcurrentUpdate when it is on that host by now.
        """
        start_move(self._starter, NewMove(MIGRATE, MigrationType.MIGRATION, host=host), uuid, who)

    def confirm_resize(self, uuid: str, who: Requester) -> None:
        """Start to give up the source. Raises: NotFound without such a move; UnexpectedTaskState, ConcurrentUpdate."""
        self._end_move(CONFIRM_RESIZE, MigrationStatus.CONFIRMING, uuid, who)

    def revert_resize(self, uuid: str, who: Requester) -> None:
        """Start to go back to the source. Raises: as :meth:`confirm_resize`."""
        self._end_move(REVERT_RESIZE, MigrationStatus.REVERTING, uuid, who)

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
                self.confirm_resize(server.uuid, who)
                server_log.confirmed_by_itself(server.uuid, who.request_id, f"{window.total_seconds():g}")
            else:
                self._give_source_up(migration)
        except (NotFound, UnexpectedTaskState, ConcurrentUpdate):
            return False
        return True

    def _give_source_up(self, migration: ServerMigration) -> None:
        """Begin what ends a migration with an error, as a part of the action that it belongs to."""

        def begin(tx: Transaction) -> WorkflowRow:
            _require_finished(tx, migration)
            return give_up(tx, self._starter, migration)

        self._starter.runner.begin([self._starter.services.database.write(begin)])

    def _end_move(self, workflow: Workflow[MoveFacts], status: MigrationStatus, uuid: str, who: Requester) -> None:
        with self._starter.services.database.read() as connection:
            migration = server_migrations.find_open(connection, uuid)
        if migration is None or migration.status is not MigrationStatus.FINISHED:
            raise NotFound(f"Instance {uuid} has not been resized.")

        def facts_of(server: Instance) -> MoveFacts:
            runs = server.power_state is not PowerState.SHUTDOWN
            return MoveFacts(migration.uuid, migration.source_host, migration.dest_host, runs=runs)

        def only_if(tx: Transaction, _server: Instance) -> None:
            _require_finished(tx, migration)

        def take(tx: Transaction, _server: Instance) -> None:
            server_migrations.set_status(tx, migration.uuid, {MigrationStatus.FINISHED}, status)

        self._starter.start(workflow, facts_of, uuid, who, take, only_if=only_if)


def _require_finished(tx: Transaction, migration: ServerMigration) -> None:
    """Raise ConcurrentUpdate when another request has a move already: to be "there already" is success for others."""
    if server_migrations.get(tx.connection, migration.uuid).status is not MigrationStatus.FINISHED:
        raise ConcurrentUpdate(f"Migration {migration.uuid} is being ended already.")


@dataclass(frozen=True, slots=True)
class NewMove:
    """A move as it is asked for. ``kind``: what its migration is called. ``flavor``: another one that the server gets.

    ``host``, ``forced``, ``stays``, ``stops``: see :class:`MoveFacts`, where ``host`` is ``requested``.
    """

    workflow: Workflow[MoveFacts]
    kind: MigrationType
    flavor: Flavor | None = None
    host: str | None = None
    forced: bool = False
    stays: bool = False
    stops: bool = False

    def facts(self, migration: str, server: Instance) -> MoveFacts:
        """Return what a move of a server remembers when it begins."""
        return MoveFacts(
            migration,
            server.host or "",
            requested=self.host,
            stays=self.stays,
            runs=server.vm_state is not VmState.STOPPED,
            paused=server.vm_state is VmState.PAUSED,
            forced=self.forced,
            stops=self.stops,
        )

    def migration(self, uuid: str, server: Instance, who: Requester) -> ServerMigration:
        """Return the record of a move of a server that begins."""
        status, source = FIRST_STATUS[self.workflow.kind], (server.host or "", server.node or "")
        asked = who.request_id, who.user_id, who.project_id
        return ServerMigration(
            uuid, server.uuid, self.kind, status, *source, server.flavor, self.flavor or server.flavor, *asked
        )

    def require_sense(self, server: Instance) -> None:
        """Raise ConcurrentUpdate when a server has become what the move was to make of it, or cannot become that."""
        if self.host is not None and self.host == server.host:
            raise ConcurrentUpdate(f"Instance {server.uuid} was changed meanwhile: it is on host {self.host} already.")
        if self.flavor is not None and not server.flavor.may_become(self.flavor):
            raise ConcurrentUpdate(
                f"Instance {server.uuid} was changed meanwhile: it has flavor {server.flavor.flavor_id} now."
            )


def start_move(
    starter: Starter,
    asked: NewMove,
    uuid: str,
    who: Requester,
    limits: Limits | None = None,
    values: Mapping[str, Any] = MappingProxyType({}),
    *,
    only_if: WithServer = nothing,
    why: Interrupt = Interrupt.OTHER_ACTION,
) -> None:
    """Store a migration with its workflow. ``values``: columns of the instance that change with it.

    ``only_if``: as of :meth:`Starter.start`; ``why``: what else is under way has to end. Moves of the server that
    nobody can end any more are given up first. Raises: as :meth:`Starter.start`; ConcurrentUpdate when what is asked
    for makes no sense by now.
    """
    migration = new_uuid()

    def require(tx: Transaction, server: Instance) -> None:
        asked.require_sense(server)
        only_if(tx, server)

    def before(tx: Transaction, _server: Instance) -> None:
        give_up_all(tx, starter, uuid)

    def begin(tx: Transaction, server: Instance) -> None:
        moves.begin(tx, asked.migration(migration, server, who), starter.services.limits, limits)
        if values:
            instances.change(tx, uuid, **values)

    starter.start(
        asked.workflow, partial(asked.facts, migration), uuid, who, begin, only_if=require, before=before, why=why
    )
