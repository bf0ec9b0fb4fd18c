# SPDX-License-Identifier: Apache-2.0
"""A workflow that is running: its journal row with typed facts, its interrupts and failures."""

from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from kilonova.conductor.workflow_engine import facts as codec
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import ConcurrentUpdate, NotFound, UnexpectedTaskState
from kilonova.messaging.messages import FaultOf, StepId, StepReply
from kilonova.model.instance import Fault, PowerState, TaskState, VmState
from kilonova.records import dataclass

F = TypeVar("F", bound="HasHost")
F_co = TypeVar("F_co", bound="HasHost", covariant=True)

#: Errors of a write which mean that a delete or another process took the instance over: the workflow has to stop.
TAKEN_OVER = (ConcurrentUpdate, NotFound, UnexpectedTaskState)


class Interrupt(StrEnum):
    """Reason to end a workflow, or to finish it sooner. All but ``FORCE_COMPLETE`` roll it back if possible."""

    DELETE = "delete"
    #: The server is powered off and kept, so its workflows end as completely as without an interrupt. The release
    #: before interrupts by ``DELETE`` instead.
    SOFT_DELETE = "soft-delete"
    #: Another action replaces the workflow. The stored value is "reboot", after the first action that used it.
    OTHER_ACTION = "reboot"
    ABORT = "abort"
    #: The workflow takes longer than the operator's configured timeout.
    TIMEOUT = "timeout"
    FORCE_COMPLETE = "force-complete"
    #: The server's host is declared dead. The rollback does not wait for undo steps on that host.
    EVACUATE = "evacuate"


#: Interrupts by both kinds of deletes.
DELETES = frozenset({Interrupt.DELETE, Interrupt.SOFT_DELETE})


class HostIsBackError(Exception):
    """A host that counted as unreachable has a live agent again, so the step must be sent to that agent."""

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
    ``step``: name of the failed step. ``undone``: True if that step has left nothing to undo.
    ``everywhere``: no other host could do the step either.
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
    everywhere: bool = False
    code: int = 500
    step: str = ""
    stuck_because: str = ""
    vm_state: VmState | None = None
    task_state: TaskState | None = None

    @classmethod
    def of(cls, reply: StepReply) -> "Failure":
        """Return the failure that an agent's reply reports."""
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


#: Error of a step of a server that has no host.
NO_HOST = "The instance has no host."


#: Error of the substitute reply for a step whose agent is too old to know the message.
AGENT_TOO_OLD = "The host of the instance runs an older release, which cannot do this."


_NEVER_HEARD = frozenset({UNREACHABLE, AGENT_TOO_OLD})


def is_unreachable(reply: StepReply) -> bool:
    """Return True if the host never received the step because its agent was unreachable."""
    return reply.error == UNREACHABLE


def failure_of(row: WorkflowRow) -> Failure | None:
    """Return the failure for which a workflow rolls back or is stuck, or None.

    If a later release stored the failure in an unknown form, only its message is returned.
    """
    if row.failure is None:
        return None
    try:
        return codec.decode({"version": 1, **row.failure}, Failure)
    except codec.UnknownFactsError:
        return Failure(str(row.failure.get("message", "")))


class HasHost(Protocol):
    """Facts of any workflow. ``host``: the host of the present step; None if the step has no host."""

    @property
    def host(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Run(Generic[F_co]):
    """One workflow at one of its steps. ``memo``: data that this process caches for the workflow; not journalled.

    ``repeated``: the present attempt at the step may have run before, in this process or in another one.
    ``taken_over``: another process began this workflow, and this one has not waited for events yet. So events may have
    been lost.
    """

    row: WorkflowRow
    facts: F_co
    memo: Any = None
    repeated: bool = False
    taken_over: bool = False

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
        """Reason for which the workflow must end or finish sooner; None if the workflow was not interrupted."""
        return None if self.row.interrupt is None else Interrupt(self.row.interrupt)

    @property
    def interrupted(self) -> Interrupt | None:
        """Interrupt for which the workflow rolls back if possible: the recorded one, or None for ``FORCE_COMPLETE``."""
        return None if self.interrupt is Interrupt.FORCE_COMPLETE else self.interrupt


class UndoFailedError(Exception):
    """An agent could not undo a step."""


class HostAwayError(UndoFailedError):
    """A step can be neither done nor undone without an absent host: the workflow waits until the host returns."""

    def __init__(self, host: str) -> None:
        super().__init__(UNREACHABLE)
        self.host = host
