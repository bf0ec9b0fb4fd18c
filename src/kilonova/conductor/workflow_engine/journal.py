# SPDX-License-Identifier: Apache-2.0
"""What the runner reads and writes: the turns of many workflows, with everything that belongs to them, and more."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from kilonova.conductor.workflow_engine.step_outcome import StepOutcome
from kilonova.conductor.workflow_engine.workflow import Batched, BoundWrite
from kilonova.db import host_agents, instance_actions, instances, workflows
from kilonova.db.core.transaction import Transaction, batched
from kilonova.db.database import Database
from kilonova.db.workflows import WorkflowRow
from kilonova.model.transitions import Transition


class Journal:
    """Commits turns of the workflows of ``owner``; those that wait together share a transaction.

    ``transition_of``: kind of workflow → its row of the table of states.
    """

    def __init__(self, database: Database, owner: str, transition_of: Callable[[str], Transition]) -> None:
        self._database = database
        self._owner = owner
        self._transition_of = transition_of
        self._write = batched(self._write_batch)

    def commit(self, outcomes: Sequence[StepOutcome]) -> tuple[WorkflowRow, ...]:
        """Make turns durable, all or none; return the workflows that waited for these to end.

        Raises: ConcurrentUpdate when one of them is not as we know it; whatever one of their writes raises.
        """
        released: tuple[WorkflowRow, ...] = self._database.write_batched(self._write, tuple(outcomes))
        return released

    def find(self, uuid: str) -> WorkflowRow | None:
        """Return a workflow as it is now; None when it is over, or another process has it."""
        with self._database.read() as connection:
            return workflows.get(connection, uuid, self._owner)

    def end(self, row: WorkflowRow, writes: Sequence[BoundWrite] = ()) -> tuple[WorkflowRow, ...]:
        """Remove a workflow that has nothing left to do, if it is as we know it: its action has failed.

        ``writes``: what belongs to that. Returns the workflows that waited for it to end.
        Raises: what ``writes`` raise.
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
        """Let the workflows begin that waited for the others of an instance, if these have ended; return them."""
        return self._database.write(lambda tx: workflows.release_waiting(tx, instance_uuid, self._owner))

    def count_try(self, row: WorkflowRow) -> WorkflowRow:
        """Note that the present step broke once more; return the row as it is then. Raises: ConcurrentUpdate."""
        after = replace(row, tries=row.tries + 1, attempt=row.attempt + 1, version=row.version + 1)
        self._database.write(lambda tx: workflows.move(tx, after, self._owner))
        return after

    def hand_over(self, row: WorkflowRow, host: str) -> bool:
        """Give a workflow to the live process that has the agent of a host inside it (ADR 6). Tells whether one has.

        An agent that is reached over the broker is reached from here as well. Raises: ConcurrentUpdate when the
        workflow is not as we know it.
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
        """Tell whether the agent of a host runs in this process, as far as the others know."""
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
        for outcome in outcomes:
            if outcome.shows is not None:
                shown = {*self._transition_of(outcome.run.row.kind).shown}
                instances.change(tx, outcome.run.instance_uuid, expected_tasks=shown, task_state=outcome.shows)
        instance_actions.add_events(tx, [outcome.ended for outcome in outcomes if outcome.ended is not None])
        instance_actions.fail(
            tx, [(outcome.run.instance_uuid, outcome.run.request_id) for outcome in outcomes if outcome.failed]
        )
        return [tuple(row for outcome in item for row in self._released_by(tx, outcome)) for item in items]

    def _released_by(self, tx: Transaction, outcome: StepOutcome) -> tuple[WorkflowRow, ...]:
        if outcome.after is not None or outcome.run.interrupted is None:
            return ()
        return workflows.release_waiting(tx, outcome.run.instance_uuid, self._owner)
