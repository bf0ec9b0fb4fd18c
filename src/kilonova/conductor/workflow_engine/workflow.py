# SPDX-License-Identifier: Apache-2.0
"""Types for declaring a workflow. :mod:`~kilonova.conductor.workflow_engine.stepper` runs them.

::

    do step 1 ──▶ do step 2 ──▶ … ──▶ settled
       │ failed      │ failed              after the point of no return a step is retried, never undone
       ▼             ▼
    unwound ◀── undo step 1 ◀── undo step 2

There are three kinds of hooks. All hooks of a kind have the same parameters:

- ``(services, run)``, followed by ``reply`` for reply handlers: decides, and returns an effect (``do``, ``undo``,
  ``on_reply``, …). The engine may call it again after a crash, so it must be idempotent: it is no error if the work
  is already done, or if an undo finds nothing to undo.
- ``(tx, run)``: writes to the database in the journal's transaction (:data:`Write`; ``settle`` also gets the power
  state).
- ``(run)``: makes a message (:func:`~kilonova.conductor.workflow_engine.step_kinds.sends`).

:mod:`~kilonova.conductor.workflow_engine.step_kinds` has constructors for the usual steps, so that a workflow names
only the parameters that it uses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from kilonova.claims.building import NEW_SERVER
from kilonova.claims.placing import Chosen, Placing
from kilonova.clock import utc_now
from kilonova.conductor.workflow_engine import facts as codec
from kilonova.conductor.workflow_engine.services import Services
from kilonova.db.core.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import ConcurrentUpdate, NotFound, UnexpectedTaskState
from kilonova.messaging.messages import AgentMessage, CallOff, FaultOf, StepId, StepReply
from kilonova.model.instance import Fault, PowerState, TaskState, VmState
from kilonova.model.request_spec import RequestSpec
from kilonova.model.transitions import Transition

F = TypeVar("F", bound="HasHost")
F_co = TypeVar("F_co", bound="HasHost", covariant=True)
T = TypeVar("T")

#: Errors of a write which mean that a delete or another process took the instance over: the workflow has to stop.
TAKEN_OVER = (ConcurrentUpdate, NotFound, UnexpectedTaskState)


class Interrupt(StrEnum):
    """Reason to end a workflow, or to finish it sooner. All but ``FORCE_COMPLETE`` roll it back if possible."""

    DELETE = "delete"
    #: Another action replaces the workflow. The stored value is "reboot", after the first action that used it.
    OTHER_ACTION = "reboot"
    ABORT = "abort"
    #: The workflow takes longer than the operator's configured timeout.
    TIMEOUT = "timeout"
    FORCE_COMPLETE = "force-complete"
    #: The server's host is declared dead. Undo steps on that host are not waited for.
    EVACUATE = "evacuate"


class HostIsBackError(Exception):
    """A host that counted as unreachable has a live agent again, so the step must be sent to it."""

    def __init__(self, host: str) -> None:
        super().__init__(host)
        self.host = host


class ServerGoneError(Exception):
    """The server of a workflow no longer exists. Helpers of a step raise it; the step's effect is then Gone."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason why a step failed. ``message`` is for the owner of the server, ``details`` are for administrators.

    ``unreachable``: the host never received the step. ``power_state``: the guest's power state after the failure; None
    if unknown.
    ``undone``: the failed step, ``step``, has left nothing to undo.
    ``stuck_because``: why the workflow can neither continue nor roll back. ``vm_state``, ``task_state``: the server's
    states before it got stuck.
    """

    message: str
    details: str = ""
    host: str | None = None
    fault_of: FaultOf = FaultOf.HOST
    unreachable: bool = False
    power_state: int | None = None
    undone: bool = False
    code: int = 500
    step: str = ""
    stuck_because: str = ""
    vm_state: VmState | None = None
    task_state: TaskState | None = None

    @classmethod
    def of(cls, reply: StepReply) -> "Failure":
        """Return the failure that an agent replied with."""
        never_heard = reply.error in _NEVER_HEARD
        return cls(
            reply.error or "",
            f"Host: {reply.host}\n{reply.details or reply.error}",
            reply.host,
            reply.fault_of,
            is_unreachable(reply),
            None if never_heard else int(reply.power_state),
        )

    def as_fault(self) -> Fault:
        return Fault(self.code, self.message, self.details or self.message)

    @property
    def known_power_state(self) -> PowerState | None:
        return None if self.power_state is None else PowerState(self.power_state)


#: Error of the substitute reply for a step whose host has no reachable agent.
UNREACHABLE = "The host of the instance cannot be reached."
#: Error of the substitute reply for a step whose agent is too old to know the message.
AGENT_TOO_OLD = "The host of the instance runs an older release, which cannot do this."
_NEVER_HEARD = frozenset({UNREACHABLE, AGENT_TOO_OLD})


def is_unreachable(reply: StepReply) -> bool:
    """Return True if the host never received the step because its agent was unreachable."""
    return reply.error == UNREACHABLE


def failure_of(row: WorkflowRow) -> Failure | None:
    """Return the failure for which a workflow rolls back or is stuck, or None.

    If a later release stored it in an unknown form, only its message is returned.
    """
    if row.failure is None:
        return None
    try:
        return codec.decode({"version": 1, **row.failure}, Failure)
    except codec.UnknownFactsError:
        return Failure(str(row.failure.get("message", "")))


class HasHost(Protocol):
    """Facts of any workflow. ``host``: the host of the present step, or None without one."""

    @property
    def host(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Run(Generic[F_co]):
    """One workflow at one of its steps. ``memo``: data that this process caches for it; not journalled."""

    row: WorkflowRow
    facts: F_co
    memo: Any = None

    @property
    def instance_uuid(self) -> str:
        return self.row.instance_uuid

    @property
    def request_id(self) -> str:
        return self.row.request_id

    @property
    def step_id(self) -> StepId:
        """The identifier of the present attempt at the step, used in messages."""
        return StepId(self.row.uuid, self.row.step, self.row.attempt)

    @property
    def failure(self) -> Failure:
        """Failure for which the workflow rolls back."""
        return failure_of(self.row) or Failure("")

    @property
    def interrupt(self) -> Interrupt | None:
        """Reason for which the workflow must end, or finish sooner; None if it was not interrupted."""
        return None if self.row.interrupt is None else Interrupt(self.row.interrupt)

    @property
    def interrupted(self) -> Interrupt | None:
        """Interrupt that makes the workflow roll back if possible: any but ``FORCE_COMPLETE``, else None."""
        return None if self.interrupt is Interrupt.FORCE_COMPLETE else self.interrupt


# --- effects ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Batched(Generic[T]):
    """A database write that is done once for all workflows that commit together: ``write(tx, items)``."""

    write: Callable[[Transaction, Sequence[T]], None]
    item: T


#: A write of a step in the journal's transaction. It receives the run with the facts from before the step.
Write = Batched[Any] | Callable[[Transaction, Run[Any]], object]
#: A write of a step whose run is already bound as an argument.
BoundWrite = Batched[Any] | Callable[[Transaction], object]


@dataclass(frozen=True, slots=True)
class SendToAgent:
    """Effect: send a message to the agent of ``host`` and wait for its reply without keeping a thread.

    ``asked_after_s``: seconds without a reply after which the agent is asked for the state of the step; None: the
    default.
    ``facts``: the facts to keep in memory, not in the journal, while the workflow waits; None: unchanged.
    ``once``: the last task state that the agent reported for the step → message to send in place of ``message``, if the
    agent has lost the step since that report.
    """

    host: str
    message: AgentMessage
    asked_after_s: float | None = None
    facts: Any = None
    once: Mapping[TaskState, AgentMessage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Completed(Generic[F]):
    """Effect: the step, or its undo, is done. ``facts``: the new facts; None: unchanged.

    ``durable``: False for a step that had nothing to do. It is not journalled before the next step starts, unless the
    next step has an undo (:meth:`Workflow.may_lag`).
    ``final``: skip the remaining steps and settle the server.
    """

    facts: F | None = None
    write: Write | None = None
    durable: bool = True
    final: bool = False
    power_state: PowerState | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """Effect: the step cannot be done, so the workflow rolls back."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Again(Generic[F]):
    """Effect: run this step again after other workflows had a turn. ``facts`` are kept in memory only."""

    facts: F


@dataclass(frozen=True, slots=True)
class Gone:
    """Effect: the server no longer exists or another process owns it. The workflow ends without doing anything more."""


@dataclass(frozen=True, slots=True)
class ClaimHost(Generic[F]):
    """Effect: claim a host for the server. One transaction commits the claim and completes the step.

    So such a step does nothing else.
    The workflows of one API request that start together get all their hosts, or none.

    ``spec``: the server's request spec, ``group_uuid``: its server group. ``placing``: how the claim changes the server
    and which guards it checks.
    ``facts``: computes the new facts from the chosen host. It runs under the scheduling lock, so it must not block.
    ``overtaken``: effect if the server was changed concurrently. ``undone``: True if a refusal leaves nothing to undo.
    ``memo``: data that this process caches for the workflow.
    """

    spec: RequestSpec
    group_uuid: str | None
    facts: Callable[[Chosen], F]
    placing: Placing = NEW_SERVER
    overtaken: Failed | Gone = field(default_factory=Gone)
    undone: bool = True
    memo: Any = None


@dataclass(frozen=True, slots=True)
class ClaimForMembers:
    """Effect: claim hosts for the members of a batch, all or none. If that succeeds, apply ``then`` to the batch.

    The members are journalled at their next step; they start it when the batch starts them.
    """

    members: tuple[tuple[Run[HasHost], ClaimHost[Any]], ...]
    then: Completed[Any] | Again[Any]


Effect = SendToAgent | Completed[Any] | ClaimHost[Any] | ClaimForMembers | Failed | Again[Any] | Gone


@dataclass(frozen=True, slots=True)
class Claimed:
    """Result of :class:`ClaimHost`: the claim and the workflow's next journal row are committed."""

    row: WorkflowRow
    memo: Any = None


@dataclass(frozen=True, slots=True)
class Ended:
    """Result of a rollback: the workflow ends, and its action has failed."""

    write: Write | None = None


@dataclass(frozen=True, slots=True)
class Restarted(Generic[F]):
    """Result of a rollback: the workflow starts again at its first step, with other facts."""

    facts: F
    write: Write | None = None


Unwound = Ended | Restarted[Any]
Do = Callable[[Services, Run[F]], Effect]
OnReply = Callable[[Services, Run[F], StepReply], Effect]


def complete_or_fail(_services: Services, _run: Run[HasHost], reply: StepReply) -> Effect:
    """Default reply handler of a step: fail on an error, else complete."""
    if reply.error is not None:
        return Failed(Failure.of(reply))
    return Completed(power_state=reply.power_state)


def complete_or_repeat(_services: Services, _run: Run[HasHost], reply: StepReply) -> Effect:
    """Default reply handler of an undo: retry on an error, else complete. Raises: UndoFailedError."""
    if reply.error is not None:
        raise UndoFailedError(reply.error)
    return Completed(power_state=reply.power_state)


class UndoFailedError(Exception):
    """An agent could not undo a step."""


def NOTHING(_services: Services, _run: Run[HasHost]) -> Effect:  # noqa: N802 - stands for a missing undo
    """Undo hook of a step that has nothing to undo."""
    return Completed(durable=False)


def CALL_OFF(_services: Services, run: Run[HasHost]) -> Effect:  # noqa: N802 - as NOTHING
    """Undo hook of a step that leaves nothing but whose order may still be on its way when the workflow is interrupted.

    It tells the agent to discard the order, so that a late order cannot overtake the next operation. Use it with
    :func:`CALLED_OFF`.
    """
    if run.interrupt in (None, Interrupt.EVACUATE) or run.facts.host is None:
        return Completed(durable=False)
    return SendToAgent(run.facts.host, CallOff(run.step_id, run.instance_uuid))


def CALLED_OFF(_services: Services, _run: Run[HasHost], _reply: StepReply) -> Effect:  # noqa: N802 - as CALL_OFF
    """Reply handler of :func:`CALL_OFF`: complete even on an error, since a restarted agent accepts no old orders."""
    return Completed()


@dataclass(frozen=True, slots=True)
class Step(Generic[F]):
    """Declaration of one step of a workflow.

    ``shows``: the server's task state from this step on, or a function of the facts that returns it; None: unchanged.
    ``event``: name of the instance action event that users see; None: no event.
    ``interrupts``: interrupt → order that cuts the step short while it waits for its agent. The reply tells which came
    first. For an interrupt that is not listed, the workflow rolls back at once: the undo message follows the step's
    message to the agent.
    ``on_skipped``: returns the write to do if a host that was declared dead does not undo the step; None: no write.
    ``blocking``: True if ``do`` may take seconds.
    """

    name: str
    do: Do[F]
    undo: Do[F]
    on_reply: OnReply[F] = complete_or_fail
    on_undone: OnReply[F] = complete_or_repeat
    shows: TaskState | Callable[[F], TaskState] | None = None
    event: str | None = None
    interrupts: Mapping[Interrupt, Do[F]] = field(default_factory=dict)
    blocking: bool = False
    on_skipped: Callable[[Services, Run[F], StepReply], Write | None] = lambda _services, _run, _reply: None

    def act(self, services: Services, run: Run[F]) -> Effect:
        """Do the step, or undo it if the workflow rolls back."""
        try:
            return (self.undo if run.row.undoing else self.do)(services, run)
        except ServerGoneError:
            return Gone()

    @property
    def leaves_nothing(self) -> bool:
        """Return True if a step that failed or never started needs no undo."""
        return self.undo in (NOTHING, CALL_OFF)

    def shown(self, facts: F) -> TaskState | None:
        """Return the server's task state from this step on; None: unchanged."""
        return self.shows(facts) if callable(self.shows) else self.shows


@dataclass(frozen=True, slots=True)
class SettleTogether(Generic[F]):
    """Final write that is batched for workflows that end at the same time."""

    write: Callable[[Services, Run[F]], Batched[Any]]


#: Write of a workflow's last transaction. The power state is the one in the agent's last reply, if it contained one.
Settle = Callable[[Transaction, Run[F], PowerState | None], object] | SettleTogether[F]


def WRITE_NOTHING(_tx: Transaction, _run: Run[HasHost], _power_state: PowerState | None) -> None:  # noqa: N802 - as NOTHING
    """Settle hook of a workflow that has no server or does not change it."""


@dataclass(frozen=True, slots=True)
class Workflow(Generic[F]):
    """Declaration of one kind of workflow.

    ``action``: its name in the list of instance actions; None: it is no action of a server.
    ``done``: the event word of the server's log line when the workflow is done.
    ``point_of_no_return``: step after whose completion the workflow only goes forward; None: it can always roll back.
    ``forward_only``: the workflow never rolls back.
    ``settle``: the write of the last transaction. ``unwound``: decides after a rollback whether to end or to restart.
    ``overtaken_by``: the interrupts for which it rolls back.
    ``urgent``: its steps run ahead of the ordinary queue. ``leaves_host``: it moves its server off a host that was
    declared dead.
    ``leads_others``: it is a batch. Its member workflows, of the same API request, move to the process that owns it.
    ``is_move``: its server may be on another host afterwards.
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
    overtaken_by: frozenset[Interrupt] = frozenset({Interrupt.DELETE})
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

    def can_walk_back(self, step: str) -> bool:
        """Return True if a failure of a step rolls the workflow back."""
        if self.forward_only:
            return False
        return self.point_of_no_return is None or self.index(step) <= self.index(self.point_of_no_return)

    def run(self, row: WorkflowRow, memo: Any = None) -> Run[F]:
        """Return a stored workflow with its decoded facts. Raises: UnknownFactsError."""
        return Run(row, codec.decode(row.facts, self.facts, self.upgrades), memo)

    def first_row(self, row: WorkflowRow, facts: F) -> WorkflowRow:
        """Return the row of a new workflow, at its first step."""
        return replace(row, step=self.steps[0].name, facts=codec.encode(facts, self.upgrades), since=utc_now())

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
            since=utc_now(),
            **values,
        )

    def after(self, run: Run[F], facts: F | None = None) -> WorkflowRow | None:
        """Return the row of a workflow after its present step is done; None if that was the last step."""
        index = self.index(run.row.step) + 1
        if index == len(self.steps):
            return None
        return self.at(run, self.steps[index].name, undoing=False, facts=facts)
