# SPDX-License-Identifier: Apache-2.0
"""What a workflow is made of: types only. :mod:`~kilonova.conductor.workflow_engine.stepper` runs them.

::

    do step 1 ──▶ do step 2 ──▶ … ──▶ settled
       │ failed      │ failed              after the point of no return a step is tried again, never undone
       ▼             ▼
    unwound ◀── undo step 1 ◀── undo step 2

Three kinds of hooks, each with the parameters of its kind:

- ``(services, run)``, and ``reply`` after one: decides, and returns an effect (``do``, ``undo``, ``on_reply``, …). It
  may be called again after a crash: "already so" and "never done" are success.
- ``(tx, run)``: writes, in the transaction of the journal (:data:`Write`; ``settle`` gets the power state as well).
- ``(run)``: makes a message (:func:`~kilonova.conductor.workflow_engine.step_kinds.sends`).

What a kind has and a hook does not need is given by :mod:`~kilonova.conductor.workflow_engine.step_kinds`, so that a
workflow says only what it uses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Generic, TypeVar

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

F = TypeVar("F")
T = TypeVar("T")

#: Somebody else (a delete, another process) took the instance over: the workflow has nothing left to do.
TAKEN_OVER = (ConcurrentUpdate, NotFound, UnexpectedTaskState)


class Interrupt(StrEnum):
    """Why a workflow is to end, or to end sooner. All but ``FORCE_COMPLETE`` have it walk back where it still can."""

    DELETE = "delete"
    #: Another action takes its place. Journals have it under the name of the first action that did.
    OTHER_ACTION = "reboot"
    ABORT = "abort"
    #: It takes longer than the operator allows.
    TIMEOUT = "timeout"
    FORCE_COMPLETE = "force-complete"
    #: The host of the server is taken for dead. Nothing that has to be undone there is asked of it any more.
    EVACUATE = "evacuate"


class HostIsBackError(Exception):
    """A host that could not be reached has a live process again: the step has to be sent after all."""

    def __init__(self, host: str) -> None:
        super().__init__(host)
        self.host = host


class ServerGoneError(Exception):
    """What a workflow is about is gone, so that its step has nothing to do: as :class:`Gone`, from further down."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a step failed. ``message`` is for the owner of the server, ``details`` are for administrators.

    ``unreachable``: the host never heard of the step. ``power_state``: the guest's afterwards, if anybody knows.
    ``undone``: the step that failed, ``step``, has left nothing to undo.
    ``stuck_because``: why the workflow cannot go on either way; ``vm_state``, ``task_state``: of the server until then.
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


#: Error of the reply that a workflow gives itself when its host has no agent.
UNREACHABLE = "The host of the instance cannot be reached."
#: Error of the reply that it gives itself when the agent of its host does not know what it would be asked to do.
AGENT_TOO_OLD = "The host of the instance runs an older release, which cannot do this."
_NEVER_HEARD = frozenset({UNREACHABLE, AGENT_TOO_OLD})


def is_unreachable(reply: StepReply) -> bool:
    """Tell whether the host never heard of the step because nobody is there."""
    return reply.error == UNREACHABLE


def failure_of(row: WorkflowRow) -> Failure | None:
    """Return why a workflow is being undone or is stuck; None when neither is so. Of another release: the message."""
    if row.failure is None:
        return None
    try:
        return codec.decode({"version": 1, **row.failure}, Failure)
    except codec.UnknownFactsError:
        return Failure(str(row.failure.get("message", "")))


@dataclass(frozen=True, slots=True)
class Run(Generic[F]):
    """One workflow at one of its steps. ``memo``: what this process keeps at hand for it; it is not journalled."""

    row: WorkflowRow
    facts: F
    memo: Any = None

    @property
    def instance_uuid(self) -> str:
        return self.row.instance_uuid

    @property
    def request_id(self) -> str:
        return self.row.request_id

    @property
    def step_id(self) -> StepId:
        """What names the present start of the step in messages."""
        return StepId(self.row.uuid, self.row.step, self.row.attempt)

    @property
    def failure(self) -> Failure:
        """Why it is being undone."""
        return failure_of(self.row) or Failure("")

    @property
    def interrupt(self) -> Interrupt | None:
        """Who has it end, or end sooner."""
        return None if self.row.interrupt is None else Interrupt(self.row.interrupt)

    @property
    def interrupted(self) -> Interrupt | None:
        """Who has it end without having done what it is for, as far as that is still possible."""
        return None if self.interrupt is Interrupt.FORCE_COMPLETE else self.interrupt


# --- effects ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Batched(Generic[T]):
    """A write that is done once for all workflows that commit together: ``write(tx, items)``."""

    write: Callable[[Transaction, Sequence[T]], None]
    item: T


#: What a step changes beside the journal, in the same transaction; of its run, with the facts from before the change.
Write = Batched[Any] | Callable[[Transaction, Run[Any]], object]
#: The same, of a run that is known.
BoundWrite = Batched[Any] | Callable[[Transaction], object]


@dataclass(frozen=True, slots=True)
class SendToAgent:
    """Send a message to the agent of ``host`` and wait for its reply, without a thread.

    ``asked_after_s``: without a reply by then the agent is asked how far it is; None stands for the usual time.
    ``facts``: as they are while it waits, in this process only; None: as before.
    ``once``: task that the agent has reached → what it is sent instead, should it have forgotten the step by then.
    """

    host: str
    message: AgentMessage
    asked_after_s: float | None = None
    facts: Any = None
    once: Mapping[TaskState, AgentMessage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Completed(Generic[F]):
    """The step, or its undo, is done. ``facts`` as they are from now on; None: as before.

    ``durable``: False for a step that had nothing to do, so that nothing need be journalled before the next one, unless
    that has to be undone (:meth:`Workflow.may_lag`).
    ``final``: the steps that follow have nothing to do.
    """

    facts: F | None = None
    write: Write | None = None
    durable: bool = True
    final: bool = False
    power_state: PowerState | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The step cannot be done: the workflow walks back."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Again(Generic[F]):
    """There is more of this step to do, after others have had their turn. ``facts`` are kept in this process only."""

    facts: F


@dataclass(frozen=True, slots=True)
class Gone:
    """What the workflow was about is no longer there, or somebody else has it: nothing is left to do."""


@dataclass(frozen=True, slots=True)
class ClaimHost(Generic[F]):
    """Claim a host for the server. Claim and end of the step are one transaction, so the step does nothing else.

    Workflows of one request that begin together and ask for hosts get all of them, or none.

    ``spec``: what is asked for the server, ``group_uuid``: its group. ``placing``: what holds of it until the claim.
    ``facts``: from the host that was chosen; called under the lock of all decisions, so it must not wait for anything.
    ``overtaken``: what it means that the server was changed meanwhile. ``undone``: a refusal leaves nothing to undo.
    ``memo``: what this process keeps at hand.
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
    """Claim hosts for workflows that only do what this one says, all or none; ``then`` goes on, unless they get none.

    They are journalled at their next step, and begin it when this one has them begin.
    """

    members: tuple[tuple[Run[Any], ClaimHost[Any]], ...]
    then: Completed[Any] | Again[Any]


Effect = SendToAgent | Completed[Any] | ClaimHost[Any] | ClaimForMembers | Failed | Again[Any] | Gone


@dataclass(frozen=True, slots=True)
class Claimed:
    """What has become of :class:`ClaimHost`: the claim is durable, and the journal's next row with it."""

    row: WorkflowRow
    memo: Any = None


@dataclass(frozen=True, slots=True)
class Ended:
    """The workflow has walked back and is over: its action has failed."""

    write: Write | None = None


@dataclass(frozen=True, slots=True)
class Restarted(Generic[F]):
    """The workflow has walked back and begins anew, with other facts."""

    facts: F
    write: Write | None = None


Unwound = Ended | Restarted[Any]
Do = Callable[[Services, Run[F]], Effect]
OnReply = Callable[[Services, Run[F], StepReply], Effect]


def complete_or_fail(_services: Services, _run: Run[Any], reply: StepReply) -> Effect:
    """What a reply to a step means, unless the step knows better."""
    if reply.error is not None:
        return Failed(Failure.of(reply))
    return Completed(power_state=reply.power_state)


def complete_or_repeat(_services: Services, _run: Run[Any], reply: StepReply) -> Effect:
    """What a reply to an undo means, unless the step knows better: what could not be undone is tried again."""
    if reply.error is not None:
        raise UndoFailedError(reply.error)
    return Completed(power_state=reply.power_state)


class UndoFailedError(Exception):
    """An agent could not undo a step."""


def NOTHING(_services: Services, _run: Run[Any]) -> Effect:  # noqa: N802 - stands where a step says what undoes it
    """The step has nothing to undo."""
    return Completed(durable=False)


def CALL_OFF(_services: Services, run: Run[Any]) -> Effect:  # noqa: N802 - as NOTHING
    """The step leaves nothing, but its order may still be on the way when somebody interrupts it.

    Then the agent is told, so that what others do next is not overtaken by it. Goes with :func:`CALLED_OFF`.
    """
    if run.interrupt in (None, Interrupt.EVACUATE) or run.facts.host is None:
        return Completed(durable=False)
    return SendToAgent(run.facts.host, CallOff(run.step_id, run.instance_uuid))


def CALLED_OFF(_services: Services, _run: Run[Any], _reply: StepReply) -> Effect:  # noqa: N802 - as CALL_OFF
    """Go on, whatever came of it: an agent that cannot be reached begins another session, which takes no old orders."""
    return Completed()


@dataclass(frozen=True, slots=True)
class Step(Generic[F]):
    """One step.

    ``shows``: the task state from this step on, maybe by its facts; None: as before.
    ``event``: the name under which users see it.
    ``interrupts``: what is sent when the step waits for its agent and is to end sooner; its reply says who won. A step
    without walks back at once: the undo follows its message to the agent.
    ``on_skipped``: what is written where a host that is taken for dead does not undo it; None: nothing.
    ``blocking``: ``do`` may take seconds.
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
        """Do the step, or undo it if the workflow walks back."""
        try:
            return (self.undo if run.row.undoing else self.do)(services, run)
        except ServerGoneError:
            return Gone()

    @property
    def leaves_nothing(self) -> bool:
        """Tell whether nothing has to be undone of a step that has not begun, or has failed."""
        return self.undo in (NOTHING, CALL_OFF)

    def shown(self, facts: F) -> TaskState | None:
        """Return the task state from this step on; None: as before."""
        return self.shows(facts) if callable(self.shows) else self.shows


@dataclass(frozen=True, slots=True)
class SettleTogether(Generic[F]):
    """The last write of a workflow of which many end at the same time."""

    write: Callable[[Services, Run[F]], Batched[Any]]


#: What the last transaction of a workflow writes; the power state is that of its guest, if its last reply told any.
Settle = Callable[[Transaction, Run[F], PowerState | None], object] | SettleTogether[F]


def WRITE_NOTHING(_tx: Transaction, _run: Run[Any], _power_state: PowerState | None) -> None:  # noqa: N802 - as NOTHING
    """The workflow leaves its server as it is, or has none."""


@dataclass(frozen=True, slots=True)
class Workflow(Generic[F]):
    """One kind of long operation.

    ``action``: what users read in the list of instance actions; None: it is no action of a server.
    ``done``: what the log says of a server when it is done.
    ``point_of_no_return``: the step from whose completion on it only goes forward. None: it can always walk back;
    ``forward_only``: it never can.
    ``settle``: what the last transaction writes. ``unwound``: what comes after the way back.
    ``overtaken_by``: the interrupts that it gives way to.
    ``urgent``: it never waits behind others. ``leaves_host``: its server leaves a host that is taken for dead.
    ``leads_others``: workflows of the same request are its members, which go to the process that has it.
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
        """Return the place of a step."""
        return self._places[step]

    def has(self, step: str) -> bool:
        """Tell whether there is such a step."""
        return step in self._places

    def step(self, name: str) -> Step[F]:
        """Return a step by its name."""
        return self.steps[self._places[name]]

    def takes(self, why: Interrupt) -> bool:
        """Tell whether an interrupt means anything to it."""
        return why in self.overtaken_by or any(why in step.interrupts for step in self.steps)

    def may_lag(self, row: WorkflowRow) -> bool:
        """Tell whether the journal need not know of a step before it begins.

        Whoever interrupts a workflow has it walk back from where the journal says it is, so what has to be undone is
        journalled before anything is sent for it.
        """
        return row.undoing or self.step(row.step).undo is NOTHING

    def can_walk_back(self, step: str) -> bool:
        """Tell whether a failure of a step undoes what was done."""
        if self.forward_only:
            return False
        return self.point_of_no_return is None or self.index(step) <= self.index(self.point_of_no_return)

    def run(self, row: WorkflowRow, memo: Any = None) -> Run[F]:
        """Return a stored workflow with its facts. Raises: UnknownFactsError."""
        return Run(row, codec.decode(row.facts, self.facts, self.upgrades), memo)

    def first_row(self, row: WorkflowRow, facts: F) -> WorkflowRow:
        """Return the row of a new workflow, at its first step."""
        return replace(row, step=self.steps[0].name, facts=codec.encode(facts, self.upgrades), since=utc_now())

    def at(self, run: Run[F], step: str, *, undoing: bool, facts: F | None = None, **values: Any) -> WorkflowRow:
        """Return the row of a workflow that goes on at a step."""
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
        """Return the row of a workflow whose present step is done; None when it was the last."""
        index = self.index(run.row.step) + 1
        if index == len(self.steps):
            return None
        return self.at(run, self.steps[index].name, undoing=False, facts=facts)
