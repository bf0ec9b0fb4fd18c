# SPDX-License-Identifier: Apache-2.0
"""Which step a message belongs to, what came of it, and how far it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kilonova.model.image_data import CacheResult
from kilonova.model.instance import Fault, PowerState, TaskState


@dataclass(frozen=True, slots=True)
class StepId:
    """Which start of which step of which workflow a message belongs to.

    An agent carries out each only once, so no two messages have the same. Those that belong to no workflow (it is ""
    then) are carried out each time.
    """

    workflow: str
    step: str
    attempt: int


@dataclass(frozen=True, slots=True)
class AskStep:
    """How far is the agent with ``step``? Answered with :class:`StepStatus`."""

    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class CallOff:
    """Orders of earlier starts of a workflow's steps are not carried out any more; one that runs is waited for."""

    step: StepId
    instance_uuid: str


class FaultOf(StrEnum):
    """Whose fault a failed step is. Only what is the host's counts against it when hosts are weighed."""

    HOST = "host"
    REQUEST = "request"


@dataclass(frozen=True, slots=True)
class StepReply:
    """What came of a step. ``power_state`` is the guest's afterwards.

    ``error`` is None for success; otherwise the owner of the server may read it, so it names no host.
    ``details`` are for administrators. ``fault_of`` is meant for failures only.
    ``aborted``: the step failed because it was asked to. ``images``: what came of each image that was to be cached.
    """

    step: StepId
    host: str
    instance_uuid: str
    error: str | None = None
    details: str = ""
    power_state: PowerState = PowerState.NOSTATE
    fault_of: FaultOf = FaultOf.HOST
    aborted: bool = False
    images: Mapping[str, CacheResult] = field(default_factory=dict)

    def as_fault(self) -> Fault:
        """Return the fault of an instance whose step failed."""
        return Fault(500, self.error or "", f"Host: {self.host}\n{self.details or self.error}")


@dataclass(frozen=True, slots=True)
class TaskReached:
    """The order of a step is so far that its server shows another task; says nothing of success."""

    step: StepId
    host: str
    instance_uuid: str
    task: TaskState


class StepState(StrEnum):
    """``RUNNING``: carried out at present, or waiting for its turn. ``UNKNOWN``: never heard of, or long forgotten."""

    DONE = "done"
    RUNNING = "running"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class StepStatus:
    """Answer to :class:`AskStep`. ``reply``: of a step that is done."""

    step: StepId
    host: str
    instance_uuid: str
    state: StepState
    reply: StepReply | None = None
