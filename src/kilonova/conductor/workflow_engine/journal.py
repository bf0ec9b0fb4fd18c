# SPDX-License-Identifier: Apache-2.0
"""The journal of workflows: reads of their rows, and batched commits of step outcomes with all their writes."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from kilonova.conductor.workflow_engine.effects import Batched, BoundWrite
from kilonova.conductor.workflow_engine.run import Interrupt
from kilonova.conductor.workflow_engine.step_outcome import StepOutcome
from kilonova.db import host_agents, instance_actions, instances, workflows
from kilonova.db.core.transaction import Transaction, batched
from kilonova.db.database import Database
from kilonova.db.workflows import WorkflowRow
from kilonova.model.instance import TaskState
from kilonova.model.transitions import Transition


class Journal:
    """Commits the step outcomes of the workflows of process ``owner``. Concurrent commits share a transaction.

    ``transition_of``: kind of workflow → its entry in the state table.
    """

    def __init__(self, database: Database, owner: str, transition_of: Callable[[str], Transition]) -> None:
        self._database = database
        self._owner = owner
        self._transition_of = transition_of
        self._write = batched(self._write_batch)

    def commit(self, outcomes: Sequence[StepOutcome]) -> tuple[WorkflowRow, ...]:
        """Commit all outcomes in one transaction; return the waiting workflows that may start now.

        Raises: ConcurrentUpdate if the journal has another version of one of the workflows; errors of the outcomes'
        writes.
        """
        released: tuple[WorkflowRow, ...] = self._database.write_batched(self._write, tuple(outcomes))
        return released

    def find(self, uuid: str) -> WorkflowRow | None:
        """Return the present row of a workflow; None if it has ended or another process owns it."""
        with self._database.read() as connection:
            return workflows.get(connection, uuid, self._owner)

    def end(self, row: WorkflowRow, writes: Sequence[BoundWrite] = ()) -> tuple[WorkflowRow, ...]:
        """Delete the row of a workflow that has ended, and record its instance action as failed.

        If the row has changed meanwhile, nothing is written. ``writes``: further writes in the same transaction.
        Returns the server's waiting workflows that may start now.
        Raises: errors of ``writes``.
        """

        def end(tx: Transaction) -> tuple[WorkflowRow, ...]:
            present = workflows.finish_present(tx, [row], self._owner)
            for write in writes if present else ():
                if isinstance(write, Batched):
                    write.write(tx, [write.item])
                else:
                    write(tx)
            if present and row.instance_uuid:
                instance_actions.fail(tx, [(row.instance_uuid, row.request_id)])
            return workflows.release_waiting(tx, row.instance_uuid, self._owner)

        return self._database.write(end)

    def release_waiting(self, instance_uuid: str) -> tuple[WorkflowRow, ...]:
        """Release an instance's waiting workflows whose predecessors have ended; return the released workflows."""
        return self._database.write(lambda tx: workflows.release_waiting(tx, instance_uuid, self._owner))

    def delete_for_good(self, instance_uuid: str) -> None:
        """Replace the interrupt of a server's workflows by that of a delete, which removes the server.

        The soft delete that waits for these workflows becomes a delete. Raises: ConcurrentUpdate.
        """

        def replace_interrupts(tx: Transaction) -> None:
            for row in workflows.of_instance(tx.connection, instance_uuid):
                after = replace(row, interrupt=Interrupt.DELETE.value, version=row.version + 1)
                workflows.change(tx, after, heir=row.owner != self._owner)

        self._database.write(replace_interrupts)

    def count_try(self, row: WorkflowRow) -> WorkflowRow:
        """Count one more failed try of the present step; return the new row. Raises: ConcurrentUpdate."""
        after = replace(row, tries=row.tries + 1, attempt=row.attempt + 1, version=row.version + 1)
        self._database.write(lambda tx: workflows.move(tx, after, self._owner))
        return after

    def await_host(self, row: WorkflowRow, host: str) -> WorkflowRow:
        """Record that a workflow waits for an absent host; return the new row. Raises: ConcurrentUpdate."""

        def note(tx: Transaction) -> WorkflowRow:
            after = replace(row, awaited_host=host, awaited_since=tx.now, version=row.version + 1)
            workflows.move(tx, after, self._owner)
            return after

        return self._database.write(note)

    def has_found_host(self, row: WorkflowRow) -> WorkflowRow:
        """Record that a workflow no longer waits for a host; return the new row. Raises: ConcurrentUpdate."""
        after = replace(row, awaited_host=None, awaited_since=None, version=row.version + 1)
        self._database.write(lambda tx: workflows.move(tx, after, self._owner))
        return after

    def now(self) -> datetime:
        """Return the time of the database's clock, from which waits are measured."""
        return self._database.clock.now()

    def hand_over(self, row: WorkflowRow, host: str) -> bool:
        """Hand a workflow over to the live process that runs a host's agent (ADR 6); return False if there is none.

        An agent behind the broker is reachable from this process too, so it needs no handover.
        Raises: ConcurrentUpdate if the journal has another version of the workflow.
        """
        if self._database.is_sole_process:
            return False

        def hand_over(tx: Transaction) -> bool:
            route = host_agents.route(tx.connection, host)
            if route is None or route.agent is not None or route.process == self._owner:
                return False
            if not host_agents.is_alive(tx, route.process):
                return False
            workflows.hand_over(tx, row, self._owner, route.process)
            return True

        return self._database.write(hand_over)

    def has_agent_of(self, host: str) -> bool:
        """Return True if the database names this process as the one that runs the agent of a host."""
        with self._database.read() as connection:
            return host_agents.process_of(connection, host) == self._owner

    def _write_batch(
        self, tx: Transaction, items: Sequence[tuple[StepOutcome, ...]]
    ) -> Sequence[tuple[WorkflowRow, ...] | BaseException]:
        outcomes = [outcome for item in items for outcome in item]
        workflows.finish_all(tx, [outcome.run.row for outcome in outcomes if outcome.after is None], self._owner)
        workflows.move_all(tx, [(outcome.after, self._owner) for outcome in outcomes if outcome.after is not None])
        batches: dict[Callable[..., None], list[Any]] = defaultdict(list)
        for outcome in outcomes:
            for write in outcome.writes:
                if isinstance(write, Batched):
                    batches[write.write].append(write.item)
                else:
                    write(tx)
        for batch, chosen in batches.items():
            batch(tx, chosen)
        shown: dict[tuple[str, TaskState], list[str]] = defaultdict(list)
        for outcome in outcomes:
            if outcome.shows is not None:
                shown[outcome.run.row.kind, outcome.shows].append(outcome.run.instance_uuid)
        for (kind, task), uuids in shown.items():
            instances.show_tasks(tx, uuids, self._transition_of(kind).shown, task)
        instance_actions.add_events(tx, [outcome.ended for outcome in outcomes if outcome.ended is not None])
        instance_actions.fail(
            tx, [(outcome.run.instance_uuid, outcome.run.request_id) for outcome in outcomes if outcome.failed]
        )
        return [tuple(row for outcome in item for row in self._released_by(tx, outcome)) for item in items]

    def _released_by(self, tx: Transaction, outcome: StepOutcome) -> tuple[WorkflowRow, ...]:
        if outcome.after is not None or outcome.run.interrupted is None:
            return ()
        return workflows.release_waiting(tx, outcome.run.instance_uuid, self._owner)
