# SPDX-License-Identifier: Apache-2.0
"""Resize and cold migration of servers, with confirm and revert; and a function that starts any kind of move."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any

from kilonova.conductor.operations.abandoned_moves import give_up, give_up_all
from kilonova.conductor.operations.starting import Starter, WithServer, nothing
from kilonova.conductor.workflow_engine import server_log
from kilonova.conductor.workflow_engine.run import Interrupt
from kilonova.conductor.workflow_engine.workflow import Workflow
from kilonova.conductor.workflows.confirm_resize import CONFIRM_RESIZE
from kilonova.conductor.workflows.moves import FIRST_STATUS, MoveFacts
from kilonova.conductor.workflows.resize import MIGRATE, RESIZE
from kilonova.conductor.workflows.revert_resize import REVERT_RESIZE
from kilonova.db import instance_networks, instances, moves, server_migrations
from kilonova.db.core.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import ConcurrentUpdate, NotFound, UnexpectedTaskState
from kilonova.identifiers import new_uuid
from kilonova.model.flavor import Flavor
from kilonova.model.instance import Instance, PowerState, VmState
from kilonova.model.quota import Limits
from kilonova.model.requester import Requester
from kilonova.model.server_migration import MigrationStatus, MigrationType, ServerMigration
from kilonova.records import dataclass

#: Number of resizes confirmed in one batch.
_CONFIRMED_TOGETHER = 50


class Moves:
    """Operations that resize and cold-migrate servers."""

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
        """Start resizing a server to ``flavor``. ``stays``: whether its current host is a possible destination.

        ``limits``: quotas from an external service (unified limits); None to use the quotas in the database.
        ``disk_config``: new disk_config of the server; None to keep the old one.
        Raises: NotFound, UnexpectedTaskState, OverQuota; ConcurrentUpdate if the server meanwhile has that flavor, or a
        flavor with a bigger root disk.
        """
        asked = NewMove(RESIZE, MigrationType.RESIZE, flavor, stays=stays)
        values = {} if disk_config is None else {"disk_config": disk_config}
        start_move(self._starter, asked, uuid, who, limits, values)

    def migrate(self, uuid: str, who: Requester, *, host: str | None = None) -> None:
        """Start cold-migrating a server. ``host``: destination; None to let the scheduler choose.

        Raises: NotFound, UnexpectedTaskState; ConcurrentUpdate if the server is already on ``host``.
        """
        start_move(self._starter, NewMove(MIGRATE, MigrationType.MIGRATION, host=host), uuid, who)

    def confirm_resize(self, uuid: str, who: Requester, *, migration: str | None = None) -> None:
        """Start confirming a server's resize or cold migration. ``migration``: only if it is this one.

        Raises: NotFound if none waits for confirmation; UnexpectedTaskState, ConcurrentUpdate.
        """
        self._end_move(CONFIRM_RESIZE, MigrationStatus.CONFIRMING, uuid, who, migration)

    def revert_resize(self, uuid: str, who: Requester) -> None:
        """Start reverting a server's resize or cold migration. Raises: as :meth:`confirm_resize`."""
        self._end_move(REVERT_RESIZE, MigrationStatus.REVERTING, uuid, who)

    def confirm_unconfirmed(self, window: timedelta) -> int:
        """Confirm a batch of resizes that have waited for confirmation longer than ``window``; return their number.

        The time is measured by the database clock. Call this until it returns 0. If the server's state was reset since
        the resize, the move is abandoned: its source is cleaned up, and its migration gets the status error.
        """
        database = self._starter.services.database
        with database.read() as connection:
            due = server_migrations.finished_before(connection, database.clock.now() - window, _CONFIRMED_TOGETHER)
            servers = {each.uuid: each for each in instances.get_many(connection, [each.instance_uuid for each in due])}
        return sum(self._confirm(migration, servers[migration.instance_uuid], window) for migration in due)

    def _confirm(self, migration: ServerMigration, server: Instance, window: timedelta) -> bool:
        """Confirm or abandon a resize; return False if another process or a user has already ended it."""
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
        """Start the workflow that cleans up the source of an abandoned move; see :func:`give_up`."""

        def begin(tx: Transaction) -> WorkflowRow:
            _require_finished(tx, migration)
            return give_up(tx, self._starter, migration)

        self._starter.runner.begin([self._starter.services.database.write(begin)])

    def _end_move(
        self,
        workflow: Workflow[MoveFacts],
        status: MigrationStatus,
        uuid: str,
        who: Requester,
        only: str | None = None,
    ) -> None:
        with self._starter.services.database.read() as connection:
            migration = server_migrations.find_open(connection, uuid)
            info = instance_networks.info_of(connection, uuid)
        if migration is None or migration.status is not MigrationStatus.FINISHED or only not in {None, migration.uuid}:
            raise NotFound(f"Instance {uuid} has not been resized.")

        def facts_of(server: Instance) -> MoveFacts:
            runs = server.power_state is not PowerState.SHUTDOWN
            at_home = {vif.port_id: vif.profile_before for vif in info if vif.profile_before}
            hosts = migration.source_host, migration.dest_host
            return MoveFacts(migration.uuid, *hosts, runs=runs, profiles_at_home=at_home)

        def only_if(tx: Transaction, _server: Instance) -> None:
            _require_finished(tx, migration)

        def take(tx: Transaction, _server: Instance) -> None:
            server_migrations.set_status(tx, migration.uuid, {MigrationStatus.FINISHED}, status)

        self._starter.start(workflow, facts_of, uuid, who, take, only_if=only_if)


def _require_finished(tx: Transaction, migration: ServerMigration) -> None:
    """Raise ConcurrentUpdate if another request is already confirming or reverting the move.

    ``set_status`` does not detect that: it accepts a migration that already has the new status.
    """
    if server_migrations.get(tx.connection, migration.uuid).status is not MigrationStatus.FINISHED:
        raise ConcurrentUpdate(f"Migration {migration.uuid} is already ending.")


@dataclass(frozen=True, slots=True)
class NewMove:
    """A requested move. ``kind``: its migration type. ``flavor``: new flavor; None if the move is no resize.

    ``host``: destination requested by the user, None if the user requested none. ``forced``: bypass the filters.
    ``stays``: the current host is a possible destination. ``stops``: power the guest off after the move.
    """

    workflow: Workflow[MoveFacts]
    kind: MigrationType
    flavor: Flavor | None = None
    host: str | None = None
    forced: bool = False
    stays: bool = False
    stops: bool = False

    def facts(self, migration: str, server: Instance) -> MoveFacts:
        """Return the facts with which the workflow of the move starts. ``migration``: uuid of the migration."""
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
        """Return the new migration record of the move. ``uuid``: uuid of the migration."""
        return ServerMigration(
            uuid=uuid,
            instance_uuid=server.uuid,
            migration_type=self.kind,
            status=FIRST_STATUS[self.workflow.kind],
            source_host=server.host or "",
            source_node=server.node or "",
            old_flavor=server.flavor,
            new_flavor=self.flavor or server.flavor,
            request_id=who.request_id,
            user_id=who.user_id,
            project_id=who.project_id,
        )

    def require_sense(self, server: Instance) -> None:
        """Raise ConcurrentUpdate if a server is already on the destination, or can no longer get the new flavor."""
        if self.host is not None and self.host == server.host:
            raise ConcurrentUpdate(f"Instance {server.uuid} was changed meanwhile: it is already on host {self.host}.")
        if self.flavor is not None and not server.flavor.may_become(self.flavor):
            raise ConcurrentUpdate(
                f"Instance {server.uuid} was changed meanwhile: it now has flavor {server.flavor.flavor_id}."
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
    note: Callable[[Transaction, str], object] = lambda _tx, _migration: None,
    why: Interrupt = Interrupt.OTHER_ACTION,
) -> None:
    """Store a migration with its workflow, and start the workflow. The server's abandoned moves are cleaned up first.

    ``values``: columns of the instance to change in the same transaction. ``only_if``: as in :meth:`Starter.start`.
    ``note``: hook for writes in the same transaction, with the uuid of the migration.
    ``why``: the kind of interrupt for the server's other workflows.
    Raises: as :meth:`Starter.start`; ConcurrentUpdate if the server is already on the requested host, or can no longer
    be resized to the requested flavor.
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
        note(tx, migration)

    starter.start(
        asked.workflow, partial(asked.facts, migration), uuid, who, begin, only_if=require, before=before, why=why
    )
