# SPDX-License-Identifier: Apache-2.0
"""Every message, frozen. To an agent: do something with a guest. To the conductor: what came of it, who is alive."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kilonova.model.host import NodeReport
from kilonova.model.instance import Fault, GuestSpec, PowerState


@dataclass(frozen=True, slots=True)
class StepId:
    """Which start of which step of which workflow a message belongs to."""

    workflow: str
    step: str
    attempt: int


@dataclass(frozen=True, slots=True)
class SpawnGuest:
    step: StepId
    guest: GuestSpec

    @property
    def instance_uuid(self) -> str:
        return self.guest.uuid


@dataclass(frozen=True, slots=True)
class DestroyGuest:
    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class RebootGuest:
    step: StepId
    instance_uuid: str
    hard: bool = False


@dataclass(frozen=True, slots=True)
class StartGuest:
    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class StopGuest:
    step: StepId
    instance_uuid: str


AgentMessage = SpawnGuest | DestroyGuest | RebootGuest | StartGuest | StopGuest


class FaultOf(StrEnum):
    """Whose fault a failed step is. Only what is the host's counts against it when hosts are weighed."""

    HOST = "host"
    REQUEST = "request"


@dataclass(frozen=True, slots=True)
class StepReply:
    """What came of a step. ``power_state`` is the guest's afterwards.

    ``error`` is None for success; otherwise the owner of the server may read it, so it names no host.
    ``details`` are for administrators. ``fault_of`` is meant for failures only.
    """

    step: StepId
    host: str
    instance_uuid: str
    error: str | None = None
    details: str = ""
    power_state: PowerState = PowerState.NOSTATE
    fault_of: FaultOf = FaultOf.HOST

    def as_fault(self) -> Fault:
        """Return the fault of an instance whose step failed."""
        return Fault(500, self.error or "", f"Host: {self.host}\n{self.details or self.error}")


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """These hosts are alive."""

    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostsStarted:
    """Agents came up: what their hypervisors are and which guests they found."""

    reports: tuple[NodeReport, ...]
    guests: Mapping[str, Mapping[str, PowerState]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Orphans:
    """Answer to :class:`HostsStarted`: which guests do not belong on a host.

    ``guests``: host → those of servers that are deleted or elsewhere, as is recorded; they are to be destroyed.
    ``unknown``: host → those of which nothing is recorded; they are to be kept and reported.
    """

    guests: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unknown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ConductorMessage = StepReply | Heartbeat
