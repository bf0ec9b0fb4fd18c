# SPDX-License-Identifier: Apache-2.0
"""Identity, result and progress of the workflow steps that agents carry out."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from kilonova.model.image_data import CacheResult
from kilonova.model.instance import Fault, PowerState, TaskState
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class StepId:
    """Identity of a message: the workflow, its step, and the attempt of that step.

    An agent carries out only the first of several messages with the same identity. Messages outside of workflows have
    ``workflow`` "" and are carried out every time they arrive.
    """

    workflow: str
    step: str
    attempt: int


@dataclass(frozen=True, slots=True)
class AskStep:
    """Query of the status of ``step``. Answered with :class:`StepStatus`."""

    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class CallOff:
    """Cancel a workflow's earlier orders for an instance. A running order ends before the reply is sent."""

    step: StepId
    instance_uuid: str


class FaultOf(StrEnum):
    """Cause of a failed step. Only a failure with the cause ``HOST`` counts for the build failure weigher."""

    HOST = "host"
    REQUEST = "request"


@dataclass(frozen=True, slots=True)
class StepReply:
    """Result of a step. ``power_state``: the guest's state after the step.

    ``error``: None for success. The owner of the server may read the text, so it names no host.
    ``details``: details of the error, for administrators. ``fault_of``: cause of a failure; ignored for success.
    ``aborted``: the step failed because it was aborted on request. ``images``: image → result, for ``CacheImages``.
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
        """Return the instance fault of a failed step."""
        return Fault(500, self.error or "", f"Host: {self.host}\n{self.details or self.error}")


@dataclass(frozen=True, slots=True)
class TaskReached:
    """Report that a running order has brought its server to the task state ``task``. The order may still fail."""

    step: StepId
    host: str
    instance_uuid: str
    task: TaskState


class StepState(StrEnum):
    """Status of a step at its agent. ``RUNNING``: running or queued. ``UNKNOWN``: never received, or forgotten."""

    DONE = "done"
    RUNNING = "running"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class StepStatus:
    """Answer to :class:`AskStep`. ``reply``: the reply of a step that is DONE."""

    step: StepId
    host: str
    instance_uuid: str
    state: StepState
    reply: StepReply | None = None
