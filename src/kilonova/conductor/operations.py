# SPDX-License-Identifier: Apache-2.0
"""What can be done to servers that exist: each is stored as a workflow with its action, and then runs by itself."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from kilonova.conductor.runner import Runner
from kilonova.conductor.services import Services
from kilonova.conductor.workflow import Interrupt, Workflow
from kilonova.conductor.workflows.confirm_resize import CONFIRM_RESIZE
from kilonova.conductor.workflows.delete import DELETE, DeleteFacts, hosts_of_guest
from kilonova.conductor.workflows.live_migrate import LIVE_MIGRATE
from kilonova.conductor.workflows.moves import MoveFacts
from kilonova.conductor.workflows.power import POWER, PowerFacts
from kilonova.conductor.workflows.resize import MIGRATE, RESIZE
from kilonova.conductor.workflows.revert_resize import REVERT_RESIZE
from kilonova.db import instance_actions, instances, moves, server_migrations, workflows
from kilonova.db.instance_actions import NewAction
from kilonova.db.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import ConcurrentUpdate, NotFound
from kilonova.identifiers import new_uuid
from kilonova.messaging.messages import MigrationProgress
from kilonova.model.flavor import Flavor
from kilonova.model.instance import Instance, PowerState, TaskState, VmState
from kilonova.model.quota import Limits
from kilonova.model.requester import Requester
from kilonova.model.server_migration import MigrationStatus, MigrationType, ServerMigration


class Operations:
    """Starts workflows of servers."""

    def __init__(self, services: Services, runner: Runner) -> None:
        self._services = services
        self._database = services.database
        self._runner = runner

    def delete(self, instance: Instance, who: Requester) -> None:
        """Start deleting an instance; whatever else is under way for it walks back first."""
        flow = self._row(DELETE, instance, who)

        def begin(tx: Transaction) -> tuple[WorkflowRow, ...]:
            current = instances.find(tx.connection, instance.uuid)
            if current is None or current.task_state is TaskState.DELETING:
                return ()
            others = self._runner.interrupt(tx, instance.uuid, Interrupt.DELETE)
            hosts = None if others else hosts_of_guest(tx.connection, instance.uuid)
            row = DELETE.first_row(replace(flow, waiting=bool(others)), DeleteFacts(hosts))
            workflows.insert(tx, [row], self._services.owner)
            instance_actions.begin(tx, [_action(DELETE, instance, who)])
            instances.change(tx, instance.uuid, task_state=TaskState.DELETING, progress=0)
            return (*others, row)

        self._go_on(self._database.write(begin))

    def change_power(self, instance: Instance, kind: str, who: Requester) -> None:
        """Start a ``start``, ``stop``, ``reboot`` or ``hard-reboot``. Raises: NotFound, UnexpectedTaskState."""
        workflow = POWER[kind]
        self.start(workflow, PowerFacts(instance.host or ""), instance, who)

    def start(
        self,
        workflow: Workflow[Any],
        facts: Any,
        instance: Instance,
        who: Requester,
        write: Callable[[Transaction], object] = lambda _tx: None,
    ) -> None:
        """Store a workflow with its action and first task state, and have it begin.

        What it may overtake walks back first. ``write(tx)``: what belongs into the same transaction.
        Raises: NotFound, UnexpectedTaskState; whatever ``write`` raises.
        """
        transition = workflow.transition
        flow = self._row(workflow, instance, who)

        def begin(tx: Transaction) -> tuple[WorkflowRow, ...]:
            instances.change(
                tx,
                instance.uuid,
                expected_states=transition.states,
                expected_tasks=transition.tasks,
                **({"task_state": transition.shown[0]} if transition.shown else {}),
            )
            others = self._runner.interrupt(tx, instance.uuid, Interrupt.OTHER_ACTION)
            row = workflow.first_row(replace(flow, waiting=bool(others)), facts)
            workflows.insert(tx, [row], self._services.owner)
            instance_actions.begin(tx, [_action(workflow, instance, who)])
            write(tx)
            return (*others, row)

        self._go_on(self._database.write(begin))

    # --- moves --------------------------------------------------------------------------------------------------------

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
        migration = _migration(instance, MigrationType.RESIZE, MigrationStatus.PRE_MIGRATING, who, flavor)
        facts = _facts(instance, migration, stays=stays)
        values = {} if disk_config is None else {"disk_config": disk_config}
        self._start_move(RESIZE, facts, instance, migration, who, limits, values)

    def migrate(self, instance: Instance, who: Requester, *, host: str | None = None) -> None:
        """Start to move a server that is off meanwhile, to ``host`` if that is given.

        Raises: NotFound, UnexpectedTaskState.
        """
        migration = _migration(instance, MigrationType.MIGRATION, MigrationStatus.PRE_MIGRATING, who)
        self._start_move(MIGRATE, _facts(instance, migration, requested=host), instance, migration, who)

    def live_migrate(
        self, instance: Instance, who: Requester, *, host: str | None = None, forced: bool = False
    ) -> None:
        """Start to move a running server, to ``host`` if that is given; ``forced``: whatever the rules say of it.

        Raises: NotFound, UnexpectedTaskState.
        """
        migration = _migration(instance, MigrationType.LIVE_MIGRATION, MigrationStatus.ACCEPTED, who)
        facts = _facts(instance, migration, requested=host, forced=forced)
        self._start_move(LIVE_MIGRATE, facts, instance, migration, who)

    def confirm_resize(self, instance: Instance, who: Requester) -> None:
        """Start to give up the source. Raises: NotFound without such a move; UnexpectedTaskState, ConcurrentUpdate."""
        self._end_move(CONFIRM_RESIZE, MigrationStatus.CONFIRMING, instance, who)

    def revert_resize(self, instance: Instance, who: Requester) -> None:
        """Start to go back to the source. Raises: as :meth:`confirm_resize`."""
        self._end_move(REVERT_RESIZE, MigrationStatus.REVERTING, instance, who)

    def abort_live_migration(
        self, instance: Instance, migration: ServerMigration, who: Requester, states: Collection[MigrationStatus]
    ) -> None:
        """Have a live migration that is in one of ``states`` end where it began; it may be over first.

        Raises: ConcurrentUpdate when it is in another state.
        """
        self._interrupt(instance, migration, Interrupt.ABORT, "live_migration_cancel", who, states)

    def force_complete(
        self, instance: Instance, migration: ServerMigration, who: Requester, states: Collection[MigrationStatus]
    ) -> None:
        """Have a live migration that is in one of ``states`` end soon, at the price of a pause.

        Raises: ConcurrentUpdate when it is in another state, or is being aborted.
        """
        self._interrupt(instance, migration, Interrupt.FORCE_COMPLETE, "live_migration_force_complete", who, states)

    def record_progress(self, message: MigrationProgress) -> None:
        """Note how much a live migration has copied; nobody waits for that."""
        facts = self._runner.awaited_facts(message)
        if not isinstance(facts, MoveFacts):
            return
        uuid = facts.migration
        copied = {
            name: getattr(message, name) for name in MigrationProgress.__dataclass_fields__ if name.endswith("_bytes")
        }

        def write(tx: Transaction) -> None:
            server_migrations.set_progress(tx, uuid, copied)
            instances.set_progress(tx, message.instance_uuid, {TaskState.MIGRATING}, message.percent)

        self._database.write(write)

    def _start_move(
        self,
        workflow: Workflow[MoveFacts],
        facts: MoveFacts,
        instance: Instance,
        migration: ServerMigration,
        who: Requester,
        limits: Limits | None = None,
        values: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Store a migration with its workflow. ``values``: columns of the instance that change with it.

        Raises: ConcurrentUpdate when the server is no longer where it was.
        """

        def begin(tx: Transaction) -> None:
            present = instances.get(tx.connection, instance.uuid)
            if (present.host, present.node, present.flavor) != (instance.host, instance.node, instance.flavor):
                raise ConcurrentUpdate(f"Instance {instance.uuid} was moved meanwhile.")
            moves.begin(tx, migration, self._services.limits, limits)
            if values:
                instances.change(tx, instance.uuid, **values)

        self.start(workflow, facts, instance, who, begin)

    def _end_move(
        self, workflow: Workflow[MoveFacts], status: MigrationStatus, instance: Instance, who: Requester
    ) -> None:
        with self._database.read() as connection:
            migration = server_migrations.find_open(connection, instance.uuid)
        if migration is None or migration.status is not MigrationStatus.FINISHED:
            raise NotFound(f"Instance {instance.uuid} has not been resized.")
        runs = instance.power_state is not PowerState.SHUTDOWN
        facts = MoveFacts(migration.uuid, migration.source_host, migration.dest_host, runs=runs)

        def take(tx: Transaction) -> None:
            # "There already" is success for that function, but another request has the move then.
            if server_migrations.get(tx.connection, migration.uuid).status is not MigrationStatus.FINISHED:
                raise ConcurrentUpdate(f"Migration {migration.uuid} is being ended already.")
            server_migrations.set_status(tx, migration.uuid, {MigrationStatus.FINISHED}, status)

        self.start(workflow, facts, instance, who, take)

    def _interrupt(
        self,
        instance: Instance,
        migration: ServerMigration,
        why: Interrupt,
        action: str,
        who: Requester,
        states: Collection[MigrationStatus],
    ) -> None:
        def interrupt(tx: Transaction) -> tuple[WorkflowRow, ...]:
            present = server_migrations.get(tx.connection, migration.uuid)
            if present.status not in states or present.migration_type is not MigrationType.LIVE_MIGRATION:
                raise ConcurrentUpdate(f"Migration {present.id} of server {instance.uuid} is {present.status.value}.")
            rows = self._runner.interrupt(tx, instance.uuid, why)
            if not rows:
                raise ConcurrentUpdate(f"Migration {present.id} of server {instance.uuid} is being ended already.")
            instance_actions.begin(tx, [NewAction(instance.uuid, action, who.request_id, who.user_id, who.project_id)])
            return rows

        self._runner.interrupted(self._database.write(interrupt))

    def _row(self, workflow: Workflow[Any], instance: Instance, who: Requester) -> WorkflowRow:
        ids = new_uuid(), workflow.kind, instance.uuid, "", who.request_id
        return WorkflowRow(*ids, "", owner=self._services.owner)

    def _go_on(self, rows: tuple[WorkflowRow, ...]) -> None:
        if rows:
            self._runner.begin([row for row in rows[-1:] if not row.waiting])
            self._runner.interrupted(rows[:-1])


def _migration(
    instance: Instance,
    kind: MigrationType,
    status: MigrationStatus,
    who: Requester,
    flavor: Flavor | None = None,
) -> ServerMigration:
    source = instance.host or "", instance.node or ""
    asked = who.request_id, who.user_id, who.project_id
    return ServerMigration(
        new_uuid(), instance.uuid, kind, status, *source, instance.flavor, flavor or instance.flavor, *asked
    )


def _facts(instance: Instance, migration: ServerMigration, **wanted: Any) -> MoveFacts:
    """Return what a move that begins remembers. ``wanted``: what was asked for, by name."""
    stopped, paused = instance.vm_state is VmState.STOPPED, instance.vm_state is VmState.PAUSED
    return MoveFacts(migration.uuid, migration.source_host, runs=not stopped, paused=paused, **wanted)


def _action(workflow: Workflow[Any], instance: Instance, who: Requester) -> NewAction:
    return NewAction(instance.uuid, workflow.action or workflow.kind, who.request_id, who.user_id, who.project_id)
