# SPDX-License-Identifier: Apache-2.0
"""Delete, soft delete, restore and reclaim of servers."""

from dataclasses import replace
from datetime import timedelta

from sqlalchemy.engine import Connection

from kilonova.conductor.operations.starting import Starter, action_of
from kilonova.conductor.workflow_engine import server_log
from kilonova.conductor.workflow_engine.run import Interrupt
from kilonova.conductor.workflows.delete import DELETE, DeleteFacts, hosts_of_guest
from kilonova.conductor.workflows.restore import RESTORE, RestoreFacts
from kilonova.conductor.workflows.soft_delete import SOFT_DELETE, SoftDeleteFacts
from kilonova.db import instance_actions, instances, server_migrations, services, soft_deletes, workflows
from kilonova.db.core.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.identifiers import new_uuid
from kilonova.model.instance import Instance, TaskState, VmState
from kilonova.model.quota import Limits
from kilonova.model.requester import Requester
from kilonova.model.server_migration import MigrationStatus
from kilonova.records import dataclass

#: Number of servers reclaimed in one transaction.
_RECLAIMED_TOGETHER = 50
#: Task states of a server whose delete is already running.
_BEING_DELETED = frozenset({TaskState.DELETING, TaskState.SOFT_DELETING})


@dataclass(frozen=True, slots=True)
class _Reclaimed:
    instance: Instance
    row: WorkflowRow


class Deletes:
    """Operations that delete and restore servers."""

    def __init__(self, starter: Starter) -> None:
        self._starter = starter
        self._database = starter.services.database

    def delete(self, uuid: str, who: Requester, *, soft: bool = False) -> None:
        """Start deleting a server; its other workflows roll back first.

        ``soft``: power the guest off but keep it, so that the server can be restored. If a restore would be impossible,
        the server is deleted at once. This is the case if the server was never launched or has no host, if its host is
        down, or if an earlier workflow is stuck or has left an unfinished move.
        """

        def begin(tx: Transaction) -> tuple[WorkflowRow, ...]:
            current = instances.find(tx.connection, uuid)
            if current is None or current.task_state in _BEING_DELETED:
                return ()
            if soft and _can_be_kept(tx.connection, current):
                return self._begin_soft(tx, current, who)
            return self._begin(tx, current, who)

        self._starter.go_on(self._database.write(begin))

    def force(self, uuid: str, who: Requester) -> None:
        """Start deleting a server permanently, even if it is soft-deleted or being soft-deleted."""

        def begin(tx: Transaction) -> tuple[WorkflowRow, ...]:
            current = instances.find(tx.connection, uuid)
            if current is None or current.task_state is TaskState.DELETING:
                return ()
            return self._begin(tx, current, who, forced=current.vm_state is not VmState.BUILDING)

        self._starter.go_on(self._database.write(begin))

    def restore(self, uuid: str, who: Requester, limits: Limits | None = None) -> None:
        """Start restoring a soft-deleted server.

        ``limits``: quotas from an external service (unified limits); None to use the quotas in the database.
        Raises: NotFound, UnexpectedTaskState, OverQuota.
        """
        configured = self._starter.services.limits

        def count(tx: Transaction, server: Instance) -> None:
            soft_deletes.count_again(tx, server, configured, limits)

        self._starter.start(RESTORE, lambda server: RestoreFacts(server.host), uuid, who, count)

    def reclaim(self, interval: timedelta) -> int:
        """Start deleting a batch of servers that were soft-deleted longer than ``interval`` ago; return their number.

        The age is measured by the database clock. Call this until it returns 0. The events of the delete are recorded
        in the instance action of the soft delete.
        """

        def begin(tx: Transaction) -> tuple[_Reclaimed, ...]:
            due = soft_deletes.due(tx.connection, tx.now - interval, _RECLAIMED_TOGETHER)
            return tuple(_Reclaimed(instance, self._begin_reclaim(tx, instance)) for instance in due)

        reclaimed = self._database.write(begin)
        for each in reclaimed:
            server_log.reclaimed(each.row.instance_uuid, each.row.request_id, each.instance.deleted_at)
        self._starter.runner.begin([each.row for each in reclaimed])
        return len(reclaimed)

    def _begin(
        self, tx: Transaction, current: Instance, who: Requester, *, forced: bool = False
    ) -> tuple[WorkflowRow, ...]:
        others = self._interrupt(tx, current, Interrupt.DELETE)
        hosts = None if others else hosts_of_guest(tx.connection, current.uuid)
        flow = replace(self._starter.row(DELETE, current.uuid, who), waiting=bool(others))
        facts = self._starter.with_networks(tx, current.uuid, DeleteFacts(hosts, forced=forced), others)
        row = DELETE.first_row(flow, facts)
        workflows.insert(tx, [row], self._starter.services.owner)
        instance_actions.begin(tx, [action_of(DELETE, current.uuid, who)])
        instances.change(tx, current.uuid, task_state=DELETE.transition.shown[0], progress=0)
        return (*others, row)

    def _begin_soft(self, tx: Transaction, current: Instance, who: Requester) -> tuple[WorkflowRow, ...]:
        others = self._interrupt(tx, current, Interrupt.SOFT_DELETE)
        flow = replace(self._starter.row(SOFT_DELETE, current.uuid, who), waiting=bool(others))
        row = SOFT_DELETE.first_row(flow, SoftDeleteFacts(current.deleted_at))
        workflows.insert(tx, [row], self._starter.services.owner)
        instance_actions.begin(tx, [action_of(SOFT_DELETE, current.uuid, who)])
        instances.change(tx, current.uuid, task_state=SOFT_DELETE.transition.shown[0], progress=0, deleted_at=tx.now)
        return (*others, row)

    def _begin_reclaim(self, tx: Transaction, instance: Instance) -> WorkflowRow:
        request_id = soft_deletes.request_of_delete(tx.connection, instance.uuid) or f"req-{new_uuid()}"
        flow = self._starter.row(DELETE, instance.uuid, Requester(request_id, "", ""))
        facts = DeleteFacts(hosts_of_guest(tx.connection, instance.uuid))
        row = DELETE.first_row(flow, self._starter.with_networks(tx, instance.uuid, facts, ()))
        workflows.insert(tx, [row], self._starter.services.owner)
        instances.change(
            tx,
            instance.uuid,
            expected_states={VmState.SOFT_DELETED},
            expected_tasks={None},
            task_state=DELETE.transition.shown[0],
        )
        return row

    def _interrupt(self, tx: Transaction, current: Instance, why: Interrupt) -> tuple[WorkflowRow, ...]:
        """Interrupt a server's workflows. If a restore is running, release the quota usage that it has claimed."""
        if current.task_state is TaskState.RESTORING:
            soft_deletes.count_no_longer(tx, current)
        return self._starter.runner.interrupt(tx, current.uuid, why)


def _can_be_kept(connection: Connection, current: Instance) -> bool:
    """Return True if a server can be restored after a soft delete."""
    if current.launched_at is None or current.host is None:
        return False
    service = services.find_by_host(connection, current.host)
    if service is None or not service.is_up:
        return False
    under_way = workflows.of_instance(connection, current.uuid)
    if any(row.stuck for row in under_way):
        return False
    migration = server_migrations.find_open(connection, current.uuid)
    return migration is None or migration.status is MigrationStatus.FINISHED or bool(under_way)
