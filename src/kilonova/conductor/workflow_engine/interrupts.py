# SPDX-License-Identifier: Apache-2.0
"""Interruption of workflows. A running workflow is never dropped: it rolls back, or finishes if it cannot roll back."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from kilonova.conductor.workflow_engine.run import DELETES, Failure, Interrupt
from kilonova.conductor.workflow_engine.workflow import Workflow
from kilonova.db import instance_actions, workflows
from kilonova.db.core.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import Conflict


def interrupt(
    tx: Transaction, registry: Mapping[str, Workflow[Any]], owner: str, instance_uuid: str, why: Interrupt
) -> tuple[WorkflowRow, ...]:
    """Interrupt the workflows of an instance in the transaction of the interrupting action; return the changed rows.

    The returned rows include workflows that already end because of a stronger interrupt, since the caller has to wait
    for them.
    The interrupt of another process's workflow is only recorded; that process finds it in the journal. A running
    workflow whose kind or step this release does not have is not changed.
    Raises: Conflict for a stuck workflow, unless the interrupt is a delete.
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
    """Return True if a waiting workflow has something to undo, for example writes of the transaction that stored it."""
    return workflow.can_walk_back(row.step) and not workflow.step(row.step).leaves_nothing


def _supersede(tx: Transaction, row: WorkflowRow, why: Interrupt) -> None:
    """Drop a stuck or waiting workflow that can never run again because its server is deleted or its host is dead.

    Raises: Conflict for a stuck workflow, unless the interrupt is a delete.
    """
    if why is Interrupt.DELETE or (why in _NEVER_AFTERWARDS and row.waiting):
        workflows.drop(tx, [row.uuid])
        instance_actions.fail(tx, [(row.instance_uuid, row.request_id)])
    elif row.stuck:
        raise Conflict(
            f"Instance {row.instance_uuid} cannot be changed: its {row.kind} is stuck and waits for an"
            " administrator. The instance can be deleted."
        )


def _concerns(workflow: Workflow[Any], row: WorkflowRow, why: Interrupt) -> bool:
    """Return True if an interrupt has to be recorded in a workflow's row.

    Two conditions must hold: no stronger interrupt was recorded before; and the workflow reacts to the interrupt, or
    the sender of the interrupt waits until the workflow ends.
    """
    return not _is_ended_by_stronger(row, why) and (why in _WAITED_FOR or workflow.takes(why))


def _is_ended_by_stronger(row: WorkflowRow, why: Interrupt) -> bool:
    return row.interrupt is not None and _STRENGTH.index(Interrupt(row.interrupt)) > _STRENGTH.index(why)


#: Interrupts by actions with a workflow of their own, which starts after the interrupted workflows have ended.
_WAITED_FOR = {Interrupt.OTHER_ACTION, Interrupt.EVACUATE, *DELETES}
#: Interrupts after which the server's waiting workflows are never started.
_NEVER_AFTERWARDS = {Interrupt.EVACUATE, *DELETES}
_STRENGTH = (
    Interrupt.FORCE_COMPLETE,
    Interrupt.ABORT,
    Interrupt.OTHER_ACTION,
    Interrupt.TIMEOUT,
    Interrupt.EVACUATE,
    Interrupt.SOFT_DELETE,
    Interrupt.DELETE,
)


def interrupted(workflow: Workflow[Any], row: WorkflowRow, why: Interrupt) -> WorkflowRow:
    """Return a workflow's row after an interrupt: the row records the interrupt, and may start the rollback.

    It starts the rollback if the interrupt ends this kind of workflow, with three exceptions: a message must first cut
    the current step short, the rollback has already started, or a rollback is no longer possible. If the row does not
    start the rollback, the sender of the interrupt waits until the workflow ends.
    """
    step = workflow.step(row.step)
    marked = replace(row, interrupt=why.value, version=row.version + 1)
    gives_way = why in workflow.overtaken_by or why is Interrupt.EVACUATE
    if row.undoing or why in step.interrupts or not (gives_way and workflow.can_walk_back(row.step)):
        return marked
    failure = asdict(Failure(f"Interrupted by {why.value}."))
    return replace(marked, undoing=True, attempt=row.attempt + 1, tries=0, failure=failure)
