# SPDX-License-Identifier: Apache-2.0
"""Translation of a step's effect to the workflow's next row and database writes. Only workflow hooks do I/O here."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from kilonova.claims.placing import NextStep
from kilonova.clock import utc_now
from kilonova.conductor.workflow_engine.effects import Batched, BoundWrite, Completed, Ended, Write
from kilonova.conductor.workflow_engine.events import Phase, WorkflowEvent
from kilonova.conductor.workflow_engine.run import Failure, HasHost, Run, failure_of
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.workflow import SettleTogether, Step, Workflow
from kilonova.db import instances
from kilonova.db.core.transaction import Transaction
from kilonova.db.instance_actions import ERROR, SUCCESS, EndedEvent
from kilonova.db.workflows import WorkflowRow
from kilonova.model.instance import Instance, PowerState, TaskState, VmState
from kilonova.records import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """One change of a workflow, to be committed.

    ``after``: the workflow's next row; None if the workflow ends. ``shows``: the server's new task state; None:
    unchanged.
    ``ended``: the instance action event that finishes with this change. ``failed``: the whole instance action fails.
    ``undoing``: the part of ``writes`` that undoes the workflow's first step, if the rollback ends there.
    ``phase``, ``message``, ``host``, ``step``: contents of the event for observers; an empty step means the present
    step of ``run``.
    """

    run: Run[HasHost]
    after: WorkflowRow | None
    phase: Phase
    writes: tuple[BoundWrite, ...] = ()
    shows: TaskState | None = None
    ended: EndedEvent | None = None
    failed: bool = False
    message: str = ""
    host: str | None = None
    step: str = ""
    undoing: tuple[BoundWrite, ...] = ()

    @property
    def stores_nothing(self) -> bool:
        """Return True if only the workflow's row changes: no write, task state or instance action event."""
        return not self.writes and self.shows is None and self.ended is None


def completed(services: Services, workflow: Workflow[Any], run: Run[HasHost], effect: Completed[Any]) -> StepOutcome:
    """Return the outcome of a completed step."""
    step = workflow.step(run.row.step)
    after = None if effect.final else workflow.after(run, effect.facts)
    known = run if effect.facts is None else replace(run, facts=effect.facts)
    if effect.memo is not None:
        known = replace(known, memo=effect.memo)
    writes = _writes(effect.write, run)
    goes_on = after is not None and workflow.step(after.step).event == step.event
    ended = None if goes_on else _event(workflow, step, known, SUCCESS)
    if after is None:
        writes = (*writes, _settling(services, workflow, known, effect.power_state))
        return StepOutcome(run=known, after=None, phase=Phase.DONE, writes=writes, ended=ended, host=known.facts.host)
    shows = _shown(workflow, known, after)
    return StepOutcome(
        run=known, after=after, phase=Phase.STEP_DONE, writes=writes, shows=shows, ended=ended, host=known.facts.host
    )


def at_host(workflow: Workflow[Any], run: Run[HasHost], facts: Any) -> NextStep:
    """Return the workflow's next row, the server's task state and the finished event of a step that claims a host.

    ``facts``: the facts after the claim. The event names the host from before the claim: in a move, the source.
    """
    after = workflow.after(run, facts)
    assert after is not None, "the last step of a workflow cannot claim a host"
    ended = _event(workflow, workflow.step(run.row.step), run, SUCCESS)
    return NextStep(after, _shown(workflow, replace(run, facts=facts), after), ended)


def _shown(workflow: Workflow[Any], run: Run[HasHost], after: WorkflowRow) -> TaskState | None:
    """Return the task state that the server gets when its workflow reaches ``after``; None: unchanged."""
    return None if run.interrupted is not None else workflow.step(after.step).shown(run.facts)


def failed(services: Services, workflow: Workflow[Any], run: Run[HasHost], failure: Failure) -> StepOutcome:
    """Return the outcome of a failed step: the workflow rolls back."""
    step = workflow.step(run.row.step)
    ended = _event(workflow, step, run, ERROR, failure)
    row = replace(run.row, failure=asdict(replace(failure, step=run.row.step)))
    last = workflow.before(run.row.step, run.facts) if failure.undone else run.row.step
    if last is None:
        return replace(_unwound(services, workflow, replace(run, row=row), ()), ended=ended)
    after = workflow.at(replace(run, row=row), last, undoing=True)
    return StepOutcome(
        run=run, after=after, phase=Phase.STEP_FAILED, ended=ended, message=failure.message, host=failure.host
    )


def undone(services: Services, workflow: Workflow[Any], run: Run[HasHost], effect: Completed[Any]) -> StepOutcome:
    """Return the outcome of an undone step."""
    known = run if effect.facts is None else replace(run, facts=effect.facts)
    earlier = workflow.before(run.row.step, known.facts)
    if earlier is None:
        return _unwound(services, workflow, known, _writes(effect.write, run))
    after = workflow.at(known, earlier, undoing=True, facts=effect.facts)
    return StepOutcome(run=known, after=after, phase=Phase.STEP_DONE, writes=_writes(effect.write, run))


def _unwound(
    services: Services, workflow: Workflow[Any], run: Run[HasHost], writes: tuple[BoundWrite, ...]
) -> StepOutcome:
    last, undoing = workflow.unwound(services, run), writes
    writes = (*writes, *_writes(last.write, run))
    failure = run.failure
    if isinstance(last, Ended):
        phase = Phase.FAILED if run.interrupted is None else Phase.INTERRUPTED
        message = failure.message if run.interrupted is None else run.interrupted.value
        failed = workflow.action is not None
        return StepOutcome(
            run=run,
            after=None,
            phase=phase,
            writes=writes,
            failed=failed,
            message=message,
            host=failure.host,
            undoing=undoing,
        )
    after = workflow.at(run, workflow.first(last.facts), undoing=False, facts=last.facts, failure=None)
    return StepOutcome(
        run=run,
        after=after,
        phase=Phase.RESTARTED,
        writes=writes,
        message=failure.message,
        host=failure.host,
        step=failure.step,
    )


def _settling(
    services: Services, workflow: Workflow[Any], run: Run[HasHost], power_state: PowerState | None
) -> BoundWrite:
    settle = workflow.settle
    if isinstance(settle, SettleTogether):
        return settle.write(services, run)
    return lambda tx: settle(tx, run, power_state)


def _writes(write: Write | None, run: Run[HasHost]) -> tuple[BoundWrite, ...]:
    if write is None:
        return ()
    return (write if isinstance(write, Batched) else partial(_written, write, run),)


def _written(write: Callable[[Transaction, Run[HasHost]], object], run: Run[HasHost], tx: Transaction) -> None:
    write(tx, run)


def failed_event(workflow: Workflow[Any], run: Run[HasHost], failure: Failure) -> EndedEvent | None:
    """Return the failed instance action event of a step that was stopped from outside its workflow."""
    return _event(workflow, workflow.step(run.row.step), run, ERROR, failure)


def _event(
    workflow: Workflow[Any], step: Step[Any], run: Run[HasHost], result: str, failure: Failure | None = None
) -> EndedEvent | None:
    if step.event is None or workflow.action is None or run.row.undoing:
        return None
    return EndedEvent(
        instance_uuid=run.instance_uuid,
        request_id=run.request_id,
        event=step.event,
        started_at=run.row.since or utc_now(),
        result=result,
        host=run.facts.host if failure is None else failure.host,
        details=None if failure is None else failure.message,
        traceback=None if failure is None else failure.details,
    )


def stuck(run: Run[HasHost], failure: Failure, server: Instance | None) -> StepOutcome:
    """Return the outcome of a step that can be neither done nor undone: the server is in error until an operator acts.

    ``server``: the present record of the server, whose states are restored if an operator retries the workflow; None
    if the server does not exist.
    """
    kept = replace(run.failure if run.row.undoing else failure, stuck_because=failure.message)
    if server is not None:
        kept = replace(kept, vm_state=server.vm_state, task_state=server.task_state)
    row = replace(
        run.row,
        stuck=True,
        tries=0,
        failure=asdict(kept),
        awaited_host=None,
        awaited_since=None,
        version=run.row.version + 1,
    )

    def write(tx: Transaction) -> None:
        instances.record_fault(tx, run.instance_uuid, failure.as_fault())
        instances.change(tx, run.instance_uuid, vm_state=VmState.ERROR, task_state=None)

    return StepOutcome(
        run=run, after=row, phase=Phase.STUCK, writes=(write,), failed=True, message=failure.message, host=failure.host
    )


def told(outcome: StepOutcome, workflow: Workflow[Any]) -> WorkflowEvent:
    """Return the event that tells observers of an outcome."""
    row = outcome.run.row
    seconds = max(0.0, (utc_now() - row.since).total_seconds()) if row.since is not None else 0.0
    with_failure = outcome.after if outcome.phase is Phase.STEP_FAILED and outcome.after is not None else row
    return WorkflowEvent(
        phase=outcome.phase,
        kind=row.kind,
        step=outcome.step or row.step,
        instance_uuid=row.instance_uuid,
        request_id=row.request_id,
        host=outcome.host,
        word=workflow.done,
        message=outcome.message,
        seconds=seconds,
        undoing=row.undoing,
        facts=outcome.run.facts,
        failure=failure_of(with_failure),
        is_interrupted=outcome.run.interrupted is not None,
    )


def begins(run: Run[HasHost]) -> WorkflowEvent:
    """Return the event that tells observers that a step starts."""
    row = run.row
    return WorkflowEvent(
        phase=Phase.STEP_BEGINS,
        kind=row.kind,
        step=row.step,
        instance_uuid=row.instance_uuid,
        request_id=row.request_id,
        host=run.facts.host,
        facts=run.facts,
    )
