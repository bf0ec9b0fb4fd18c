# SPDX-License-Identifier: Apache-2.0
"""The one transaction of the runner: the turns of many workflows, with everything that belongs to them."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from kilonova.conductor.turns import Turn
from kilonova.conductor.workflow import Batched
from kilonova.db import instance_actions, instances, workflows
from kilonova.db.database import Database
from kilonova.db.transaction import Transaction, batched
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

    def commit(self, turns: Sequence[Turn]) -> tuple[WorkflowRow, ...]:
        """Make turns durable, all or none; return the workflows that waited for these to end.

        Raises: ConcurrentUpdate when one of them is not as we know it; whatever one of their writes raises.
        """
        released: tuple[WorkflowRow, ...] = self._database.write_batched(self._write, tuple(turns))
        return released

    def _write_batch(
        self, tx: Transaction, items: Sequence[tuple[Turn, ...]]
    ) -> Sequence[tuple[WorkflowRow, ...] | BaseException]:
        turns = [turn for item in items for turn in item]
        workflows.finish_all(tx, [turn.run.row for turn in turns if turn.after is None], self._owner)
        workflows.move_all(tx, [(turn.after, self._owner) for turn in turns if turn.after is not None])
        batches: dict[Callable[..., None], list[Any]] = defaultdict(list)
        for turn in turns:
            for write in turn.writes:
                if isinstance(write, Batched):
                    batches[write.write].append(write.item)
                else:
                    write(tx)
        for batch, chosen in batches.items():
            batch(tx, chosen)
        for turn in turns:
            if turn.shows is not None:
                shown = {*self._transition_of(turn.run.row.kind).shown}
                instances.change(tx, turn.run.instance_uuid, expected_tasks=shown, task_state=turn.shows)
        instance_actions.add_events(tx, [turn.ended for turn in turns if turn.ended is not None])
        instance_actions.fail(tx, [(turn.run.instance_uuid, turn.run.request_id) for turn in turns if turn.failed])
        return [tuple(row for turn in item for row in self._released_by(tx, turn)) for item in items]

    def _released_by(self, tx: Transaction, turn: Turn) -> tuple[WorkflowRow, ...]:
        if turn.after is not None or turn.run.interrupted is None:
            return ()
        return workflows.release_waiting(tx, turn.run.instance_uuid, self._owner)
