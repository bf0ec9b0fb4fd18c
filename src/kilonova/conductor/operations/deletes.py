# SPDX-License-Identifier: Apache-2.0
"""Delete a server."""

from dataclasses import replace

from kilonova.conductor.operations.starting import Starter, action_of
from kilonova.conductor.workflow import Interrupt
from kilonova.conductor.workflows.delete import DELETE, DeleteFacts, hosts_of_guest
from kilonova.db import instance_actions, instances, workflows
from kilonova.db.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.model.instance import Instance, TaskState
from kilonova.model.requester import Requester


class Deletes:
    """Ends servers."""

    def __init__(self, starter: Starter) -> None:
        self._starter = starter

    def delete(self, instance: Instance, who: Requester) -> None:
        """Start deleting an instance; whatever else is under way for it walks back first."""
        flow = self._starter.row(DELETE, instance, who)

        def begin(tx: Transaction) -> tuple[WorkflowRow, ...]:
            current = instances.find(tx.connection, instance.uuid)
            if current is None or current.task_state is TaskState.DELETING:
                return ()
            others = self._starter.runner.interrupt(tx, instance.uuid, Interrupt.DELETE)
            hosts = None if others else hosts_of_guest(tx.connection, instance.uuid)
            row = DELETE.first_row(replace(flow, waiting=bool(others)), DeleteFacts(hosts))
            workflows.insert(tx, [row], self._starter.services.owner)
            instance_actions.begin(tx, [action_of(DELETE, instance, who)])
            instances.change(tx, instance.uuid, task_state=TaskState.DELETING, progress=0)
            return (*others, row)

        self._starter.go_on(self._starter.services.database.write(begin))
