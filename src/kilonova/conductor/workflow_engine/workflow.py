# SPDX-License-Identifier: Apache-2.0
"""Declaration of a workflow and its steps. :mod:`~kilonova.conductor.workflow_engine.stepper` runs it.

::

    do step 1 ──▶ do step 2 ──▶ … ──▶ settled
       │ failed      │ failed              after the point of no return a step is retried, never undone
       ▼             ▼
    unwound ◀── undo step 1 ◀── undo step 2

There are three kinds of hooks. All hooks of a kind have the same parameters:

- ``(services, run)``, followed by ``reply`` for reply handlers: the hook returns an effect (``do``, ``undo``,
  ``on_reply``, …). The engine may call the hook again after a crash, so the hook must be idempotent: it is no error if
  the work is already done, or if an undo finds nothing to undo.
- ``(tx, run)``: the hook writes to the database in the journal's transaction
  (:data:`~kilonova.conductor.workflow_engine.effects.Write`; ``settle`` also gets the power state).
- ``(run)``: the hook makes a message (:func:`~kilonova.conductor.workflow_engine.step_kinds.sends`).

:mod:`~kilonova.conductor.workflow_engine.step_kinds` has constructors for the usual steps, so that a workflow names
only the parameters that it uses.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Generic

from kilonova.clock import utc_now
from kilonova.conductor.workflow_engine import facts as codec
from kilonova.conductor.workflow_engine.effects import (
    Batched,
    Completed,
    Effect,
    Ended,
    Failed,
    Gone,
    SendToAgent,
    Unwound,
    Write,
)
from kilonova.conductor.workflow_engine.run import (
    DELETES,
    F,
    Failure,
    HasHost,
    HostAwayError,
    Interrupt,
    Run,
    ServerGoneError,
    UndoFailedError,
    is_unreachable,
)
from kilonova.conductor.workflow_engine.services import Services
from kilonova.db.core.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.messaging.messages import CallOff, StepReply
from kilonova.model.instance import PowerState, TaskState
from kilonova.model.transitions import Transition
from kilonova.records import dataclass, replace

Do = Callable[[Services, Run[F]], Effect]
OnReply = Callable[[Services, Run[F], StepReply], Effect]


def complete_or_fail(_services: Services, _run: Run[HasHost], reply: StepReply) -> Effect:
    """Default reply handler of a step: fail on an error, else complete."""
    if reply.error is not None:
        return Failed(Failure.of(reply))
    return Completed(power_state=reply.power_state)


def complete_or_repeat(_services: Services, _run: Run[HasHost], reply: StepReply) -> Effect:
    """Default reply handler of an undo: retry on an error, wait for an absent host, else complete.

    Raises: UndoFailedError, HostAwayError.
    """
    if is_unreachable(reply):
        raise HostAwayError(reply.host)
    if reply.error is not None:
        raise UndoFailedError(reply.error)
    return Completed(power_state=reply.power_state)


def NOTHING(_services: Services, _run: Run[HasHost]) -> Effect:  # noqa: N802 - stands for a missing undo
    """Undo hook of a step that has nothing to undo."""
    return Completed(durable=False)


def CALL_OFF(_services: Services, run: Run[HasHost]) -> Effect:  # noqa: N802 - as NOTHING
    """Undo hook of a step that leaves nothing to undo, but whose order may still be on its way to the agent.

    If the workflow is interrupted, the hook tells the agent to discard the order, so that a late order cannot overtake
    the next operation. Use the hook with :func:`CALLED_OFF`.
    """
    if run.interrupt in (None, Interrupt.EVACUATE) or run.facts.host is None:
        return Completed(durable=False)
    return SendToAgent(run.facts.host, CallOff(run.step_id, run.instance_uuid))


def CALLED_OFF(_services: Services, _run: Run[HasHost], reply: StepReply) -> Effect:  # noqa: N802 - as CALL_OFF
    """Reply handler of :func:`CALL_OFF`: complete even if the agent reports an error.

    The workflow waits for an absent host, because a frozen agent may finish the order when the agent continues.
    Raises: HostAwayError.
    """
    if is_unreachable(reply):
        raise HostAwayError(reply.host)
    return Completed()


def _always(_facts: HasHost) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Step(Generic[F]):
    """Declaration of one step of a workflow.

    ``shows``: the task state that the server gets when the workflow reaches this step, or a function of the facts that
    returns it; None: unchanged.
    ``event``: name of the instance action event that users see; None: no event.
    ``interrupts``: interrupt → order that cuts the step short while it waits for its agent. The step's reply then tells
    whether the step was cut short or done. For an interrupt that is not listed, the workflow rolls back at once: the
    undo message follows the step's message to the agent.
    ``on_skipped``: returns the write to do if a host that was declared dead does not undo the step; None: no write.
    ``applies``: facts → whether the workflow has this step. A step that does not apply costs nothing: the workflow
    skips it, forwards and in a rollback.
    ``blocking``: True if ``do`` may take seconds, or a function of the facts that returns it; ``undo_blocks``: True if
    ``undo`` may.
    ``repeats``: the step cannot be undone once its order may have reached the host. If the host is lost after that, the
    workflow waits for the host and repeats the order, which must be idempotent. Without ``repeats``, the step fails.
    """

    name: str
    do: Do[F]
    undo: Do[F]
    on_reply: OnReply[F] = complete_or_fail
    on_undone: OnReply[F] = complete_or_repeat
    shows: TaskState | Callable[[F], TaskState] | None = None
    event: str | None = None
    interrupts: Mapping[Interrupt, Do[F]] = field(default_factory=dict)
    applies: Callable[[F], bool] = _always
    blocking: bool | Callable[[F], bool] = False
    undo_blocks: bool = False
    repeats: bool = False
    on_skipped: Callable[[Services, Run[F], StepReply], Write | None] = lambda _services, _run, _reply: None

    def act(self, services: Services, run: Run[F]) -> Effect:
        """Do the step, or undo it if the workflow rolls back."""
        try:
            return (self.undo if run.row.undoing else self.do)(services, run)
        except ServerGoneError:
            return Gone()

    def blocks(self, facts: F, *, undoing: bool) -> bool:
        """Return True if the step, or its undo, may take seconds."""
        if undoing:
            return self.undo_blocks
        return self.blocking(facts) if callable(self.blocking) else self.blocking

    @property
    def leaves_nothing(self) -> bool:
        """Return True if a step that failed or never started needs no undo."""
        return self.undo in (NOTHING, CALL_OFF)

    def shown(self, facts: F) -> TaskState | None:
        """Return the task state that the server gets when the workflow reaches this step; None: unchanged."""
        return self.shows(facts) if callable(self.shows) else self.shows


@dataclass(frozen=True, slots=True)
class SettleTogether(Generic[F]):
    """Settle hook whose write is batched: workflows that end at the same time share one write."""

    write: Callable[[Services, Run[F]], Batched[Any]]


#: Write of a workflow's last transaction. The power state is that of the agent's last reply; None if that reply has
#: none.
Settle = Callable[[Transaction, Run[F], PowerState | None], object] | SettleTogether[F]


def WRITE_NOTHING(_tx: Transaction, _run: Run[HasHost], _power_state: PowerState | None) -> None:  # noqa: N802 - as NOTHING
    """Settle hook of a workflow that has no server or does not change it."""


@dataclass(frozen=True, slots=True)
class Workflow(Generic[F]):
    """Declaration of one kind of workflow.

    ``action``: name of the instance action; None: the workflow is no action of a server.
    ``done``: the EVENT in the log line when the workflow is done; see ``server_log``.
    ``point_of_no_return``: step after whose completion the workflow only goes forward; None: it can always roll back.
    ``forward_only``: the workflow never rolls back.
    ``settle``: the write of the last transaction. ``unwound``: decides after a rollback whether to end or to restart.
    ``overtaken_by``: the interrupts that make the workflow roll back.
    ``urgent``: the steps run ahead of the ordinary queue. ``leaves_host``: the workflow moves its server off a host
    that was declared dead.
    ``leads_others``: the workflow is a batch. A process that takes it over also takes over its member workflows.
    ``is_move``: the server may be on another host afterwards.
    """

    kind: str
    facts: type[F]
    steps: tuple[Step[F], ...]
    transition: Transition
    settle: Settle[F]
    unwound: Callable[[Services, Run[F]], Unwound] = lambda _services, _run: Ended()
    action: str | None = None
    done: str = "done"
    point_of_no_return: str | None = None
    forward_only: bool = False
    overtaken_by: frozenset[Interrupt] = DELETES
    upgrades: tuple[codec.Upgrade, ...] = ()
    urgent: bool = False
    leaves_host: bool = False
    leads_others: bool = False
    is_move: bool = False
    _places: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        places = {step.name: index for index, step in enumerate(self.steps)}
        assert len(places) == len(self.steps), self.kind
        object.__setattr__(self, "_places", places)

    def index(self, step: str) -> int:
        """Return the index of a step."""
        return self._places[step]

    def has(self, step: str) -> bool:
        """Return True if the workflow has a step of this name."""
        return step in self._places

    def step(self, name: str) -> Step[F]:
        """Return a step by its name."""
        return self.steps[self._places[name]]

    def takes(self, why: Interrupt) -> bool:
        """Return True if the workflow reacts to an interrupt."""
        return why in self.overtaken_by or any(why in step.interrupts for step in self.steps)

    def may_lag(self, row: WorkflowRow) -> bool:
        """Return True if a step may start before the journal records it.

        An interrupt rolls a workflow back from the journalled step. So a step that has to be undone is journalled
        before it sends anything.
        """
        return row.undoing or self.step(row.step).undo is NOTHING

    def waits_after(self, step: str, failure: Failure) -> bool:
        """Return True if a step that failed because its host is absent can only wait for that host.

        A step after the point of no return always waits. A step that ``repeats`` waits if the host may have received
        its order.
        """
        if not failure.unreachable:
            return False
        return not self.can_walk_back(step) or (self.step(step).repeats and not failure.undone)

    def can_walk_back(self, step: str) -> bool:
        """Return True if the workflow rolls back after a failure of this step."""
        if self.forward_only:
            return False
        return self.point_of_no_return is None or self.index(step) <= self.index(self.point_of_no_return)

    def run(self, row: WorkflowRow, memo: Any = None) -> Run[F]:
        """Return a stored workflow with its decoded facts. Raises: UnknownFactsError."""
        return Run(row, codec.decode(row.facts, self.facts, self.upgrades), memo)

    def steps_of(self, row: WorkflowRow) -> tuple[Step[F], ...]:
        """Return the steps that apply to a workflow according to its facts; all steps if the facts are unreadable."""
        try:
            facts = self.run(row).facts
        except codec.UnknownFactsError:
            return self.steps
        return tuple(step for step in self.steps if step.name == row.step or step.applies(facts))

    def first_row(self, row: WorkflowRow, facts: F) -> WorkflowRow:
        """Return the row of a new workflow, at its first step."""
        return replace(row, step=self.first(facts), facts=codec.encode(facts, self.upgrades), since=utc_now())

    def first(self, facts: F) -> str:
        """Return the step at which a workflow with these facts begins."""
        return next(step.name for step in self.steps if step.applies(facts))

    def at(self, run: Run[F], step: str, *, undoing: bool, facts: F | None = None, **values: Any) -> WorkflowRow:
        """Return the next version of a workflow's row, with ``step`` as its current step."""
        return replace(
            run.row,
            step=step,
            undoing=undoing,
            facts=run.row.facts if facts is None else codec.encode(facts, self.upgrades),
            attempt=run.row.attempt + 1,
            version=run.row.version + 1,
            tries=0,
            awaited_host=None,
            awaited_since=None,
            since=utc_now(),
            **values,
        )

    def after(self, run: Run[F], facts: F | None = None) -> WorkflowRow | None:
        """Return the row of a workflow after its present step is done; None if that was the last step."""
        known = run.facts if facts is None else facts
        for step in self.steps[self.index(run.row.step) + 1 :]:
            if step.applies(known):
                return self.at(run, step.name, undoing=False, facts=facts)
        return None

    def before(self, step: str, facts: F) -> str | None:
        """Return the step that a rollback undoes after ``step``; None if that was the first step."""
        earlier = self.steps[: self.index(step)]
        return next((each.name for each in reversed(earlier) if each.applies(facts)), None)
