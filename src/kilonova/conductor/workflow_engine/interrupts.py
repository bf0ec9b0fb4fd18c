# SPDX-License-Identifier: Apache-2.0
"""Have workflows end, or end sooner: they walk back, or go on where they no longer can. None is just dropped."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from kilonova.conductor.workflow_engine.workflow import Failure, Interrupt, Workflow
from kilonova.db import instance_actions, workflows
from kilonova.db.core.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import Conflict


def interrupt(
    tx: Transaction, registry: Mapping[str, Workflow[Any]], owner: str, instance_uuid: str, why: Interrupt
) -> tuple[WorkflowRow, ...]:
    """Mark what is under way for an instance, in the transaction of whoever wants it to end; return the new rows.

    What ends already because of something stronger is as it was among them: it has to be waited for as well.
    Those of other processes are marked so that these notice; those of other releases are left to them.
    Raises: Conflict for what waits for an operator, which gives way to a delete only.
    """
    changed: list[WorkflowRow] = []
    for row in workflows.of_instance(tx.connection, instance_uuid):
        workflow = registry.get(row.kind)
        if workflow is not None and not workflow.has(row.step):
            workflow = None
        if row.stuck or (row.waiting and (workflow is None or not _has_to_undo(workflow, row))):
            _supersede(tx, row, why)
            continue
        if workflow is not None and not row.waiting and why in _WAITED_FOR and _is_ended_by_stronger(row, why):
            changed.append(row)
            continue
        if workflow is None or not _concerns(workflow, row, why):
            continue
        if row.waiting and why not in _NEVER_AFTERWARDS:
            continue
        after = interrupted(workflow, replace(row, waiting=False), why)
        workflows.change(tx, after, heir=row.owner != owner)
        changed.append(after)
    return tuple(changed)


def _has_to_undo(workflow: Workflow[Any], row: WorkflowRow) -> bool:
    """Tell whether what waits has left something already, in the transaction that stored it or after that."""
    return workflow.can_walk_back(row.step) and not workflow.step(row.step).leaves_nothing


def _supersede(tx: Transaction, row: WorkflowRow, why: Interrupt) -> None:
    """Drop what does nothing now, and never will when its server is deleted, or its host is taken for dead."""
    if why is Interrupt.DELETE or (why in _NEVER_AFTERWARDS and row.waiting):
        workflows.drop(tx, [row.uuid])
        instance_actions.fail(tx, [(row.instance_uuid, row.request_id)])
    elif row.stuck:
        raise Conflict(
            f"Instance {row.instance_uuid} cannot be changed: its {row.kind} is stuck and waits for an"
            " administrator. It can be deleted."
        )


def _concerns(workflow: Workflow[Any], row: WorkflowRow, why: Interrupt) -> bool:
    """Tell whether an interrupt is for a workflow: one that takes it, unless something stronger was wanted before."""
    return not _is_ended_by_stronger(row, why) and (why in _WAITED_FOR or workflow.takes(why))


def _is_ended_by_stronger(row: WorkflowRow, why: Interrupt) -> bool:
    return row.interrupt is not None and _STRENGTH.index(Interrupt(row.interrupt)) > _STRENGTH.index(why)


#: Whoever sends these begins something of its own when all else has ended.
_WAITED_FOR = {Interrupt.OTHER_ACTION, Interrupt.EVACUATE, Interrupt.DELETE}
#: After these nothing begins that waits for other work.
_NEVER_AFTERWARDS = {Interrupt.EVACUATE, Interrupt.DELETE}
_STRENGTH = (
    Interrupt.FORCE_COMPLETE,
    Interrupt.ABORT,
    Interrupt.OTHER_ACTION,
    Interrupt.TIMEOUT,
    Interrupt.EVACUATE,
    Interrupt.DELETE,
)


def interrupted(workflow: Workflow[Any], row: WorkflowRow, why: Interrupt) -> WorkflowRow:
    """Return a workflow that somebody wants to end.

    It walks back at once where it gives way to that. Where its step has to be cut short by a message, or it cannot
    walk back any more, it is only marked, and whoever interrupts it waits until it has ended.
    """
    step = workflow.step(row.step)
    marked = replace(row, interrupt=why.value, version=row.version + 1)
    gives_way = why in workflow.overtaken_by or why is Interrupt.EVACUATE
    if row.undoing or why in step.interrupts or not (gives_way and workflow.can_walk_back(row.step)):
        return marked
    failure = asdict(Failure(f"Interrupted by {why.value}."))
    return replace(marked, undoing=True, attempt=row.attempt + 1, tries=0, failure=failure)
