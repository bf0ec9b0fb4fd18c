# SPDX-License-Identifier: Apache-2.0
"""What can be done to servers that exist: each is stored as a workflow with its action, and then runs by itself."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kilonova.conductor.runner import Runner
from kilonova.conductor.services import Services
from kilonova.conductor.workflow import Interrupt, Workflow
from kilonova.conductor.workflows.delete import DELETE, DeleteFacts
from kilonova.conductor.workflows.power import POWER, PowerFacts
from kilonova.db import instance_actions, instances, workflows
from kilonova.db.instance_actions import NewAction
from kilonova.db.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.identifiers import new_uuid
from kilonova.messaging.messages import MigrationProgress
from kilonova.model.instance import Instance, TaskState
from kilonova.model.requester import Requester


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
            row = DELETE.first_row(replace(flow, waiting=bool(others)), DeleteFacts())
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
            others = self._runner.interrupt(tx, instance.uuid, Interrupt.REBOOT)
            row = workflow.first_row(replace(flow, waiting=bool(others)), facts)
            workflows.insert(tx, [row], self._services.owner)
            instance_actions.begin(tx, [_action(workflow, instance, who)])
            write(tx)
            return (*others, row)

        self._go_on(self._database.write(begin))

    def record_progress(self, message: MigrationProgress) -> None:
        """Note how much a live migration has copied."""

    def _row(self, workflow: Workflow[Any], instance: Instance, who: Requester) -> WorkflowRow:
        ids = new_uuid(), workflow.kind, instance.uuid, "", who.request_id
        return WorkflowRow(*ids, "", owner=self._services.owner)

    def _go_on(self, rows: tuple[WorkflowRow, ...]) -> None:
        if rows:
            self._runner.begin([row for row in rows[-1:] if not row.waiting])
            self._runner.interrupted(rows[:-1])


def _action(workflow: Workflow[Any], instance: Instance, who: Requester) -> NewAction:
    return NewAction(
        instance.uuid, workflow.action or workflow.kind, who.request_id, who.user_id, who.project_id
    )
