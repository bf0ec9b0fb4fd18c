# SPDX-License-Identifier: Apache-2.0
"""Every message, frozen. To an agent: do something with a guest. To the conductor: what came of it, who is alive."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from kilonova.model.found_guest import Removal
from kilonova.model.host import NodeReport
from kilonova.model.instance import Fault, GuestSpec, PowerState


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


@dataclass(frozen=True, slots=True)
class RemoveGuest:
    """Have a guest go that a record says has to, unless it is younger than that record or does not bear our mark.

    Belongs to no workflow. Where ``running_deleted_instance_action`` says so, one of a deleted server stays.
    """

    step: StepId
    removal: Removal

    @property
    def instance_uuid(self) -> str:
        return self.removal.instance_uuid


# --- cold moves: resize and migrate -----------------------------------------------------------------------------------
#
# A host has for each instance a guest, or one that it keeps for a move that nobody has confirmed yet, or both: source
# and destination of a resize may be the same host.


@dataclass(frozen=True, slots=True)
class MoveAway:
    """To the source: power the guest off and keep it, for ``destination`` to copy and for the way back."""

    step: StepId
    instance_uuid: str
    destination: str


@dataclass(frozen=True, slots=True)
class FinishMove:
    """To the destination: make the guest that ``source`` keeps, with its new size, and start it if ``power_on``."""

    step: StepId
    guest: GuestSpec
    source: str
    power_on: bool

    @property
    def instance_uuid(self) -> str:
        return self.guest.uuid


@dataclass(frozen=True, slots=True)
class ReturnHome:
    """To the source: take the kept guest back as it was; a guest that never left is success.

    Undoes ``MoveAway`` and ``LiveMigrate``, and is the last step of a revert.
    """

    step: StepId
    guest: GuestSpec
    power_on: bool

    @property
    def instance_uuid(self) -> str:
        return self.guest.uuid


@dataclass(frozen=True, slots=True)
class ConfirmMove:
    """To the source: drop what is kept, and nothing else. Absent is success."""

    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class AbandonMove:
    """To the destination: drop the guest that a move made there, and nothing that is kept. Absent is success."""

    step: StepId
    instance_uuid: str


# --- live migration ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PrepareLiveMigration:
    """To the destination: make an incoming guest, paused, that ``source`` can copy its memory to."""

    step: StepId
    guest: GuestSpec
    source: str

    @property
    def instance_uuid(self) -> str:
        return self.guest.uuid


@dataclass(frozen=True, slots=True)
class LiveMigrate:
    """To the source: copy the running guest to ``destination``, then keep it. Takes as long as that takes.

    The reply's ``power_state`` is what the guest was, running or paused. A migration that was aborted is answered with
    an error and ``aborted``; its guest still runs at the source.
    """

    step: StepId
    instance_uuid: str
    destination: str


@dataclass(frozen=True, slots=True)
class AbortLiveMigration:
    """To the source: abort the live migration of this workflow, whether it runs, waits or has not come yet.

    Has no reply: that of ``LiveMigrate`` says whether the abort or the migration was first. One that comes when
    everything is copied has no effect.
    """

    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class ForceCompleteLiveMigration:
    """To the source: end the live migration of this instance soon, at the price of a pause of the guest.

    Has no reply: that of ``LiveMigrate`` comes sooner. Without a running migration it has no effect.
    """

    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class ActivateMigrated:
    """To the destination: the incoming guest is whole. Let it run, or leave it ``paused`` as it was."""

    step: StepId
    instance_uuid: str
    paused: bool = False


# --- questions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AskStep:
    """How far is the agent with ``step``? Answered with :class:`StepStatus`."""

    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class AskGuests:
    """Which of these guests does the host have? Answered with :class:`GuestsFound`.

    Waits for a hypervisor, but behind no order. Belongs to no workflow.
    """

    step: StepId
    instance_uuids: tuple[str, ...]

    @property
    def instance_uuid(self) -> str:
        """It is about none in particular."""
        return ""


#: Overtake the queue of their instance and are handled at once, even while something long runs for it.
Interrupt = AbortLiveMigration | ForceCompleteLiveMigration | AskStep
#: Carried out one after the other for each instance, and answered with a :class:`StepReply`.
Order = (
    SpawnGuest
    | DestroyGuest
    | RebootGuest
    | StartGuest
    | StopGuest
    | MoveAway
    | FinishMove
    | ReturnHome
    | ConfirmMove
    | AbandonMove
    | PrepareLiveMigration
    | LiveMigrate
    | ActivateMigrated
    | RemoveGuest
)
AgentMessage = Order | Interrupt | AskGuests


# --- to the conductor -------------------------------------------------------------------------------------------------


class FaultOf(StrEnum):
    """Whose fault a failed step is. Only what is the host's counts against it when hosts are weighed."""

    HOST = "host"
    REQUEST = "request"


@dataclass(frozen=True, slots=True)
class StepReply:
    """What came of a step. ``power_state`` is the guest's afterwards.

    ``error`` is None for success; otherwise the owner of the server may read it, so it names no host.
    ``details`` are for administrators. ``fault_of`` is meant for failures only.
    ``aborted``: the step failed because it was asked to.
    """

    step: StepId
    host: str
    instance_uuid: str
    error: str | None = None
    details: str = ""
    power_state: PowerState = PowerState.NOSTATE
    fault_of: FaultOf = FaultOf.HOST
    aborted: bool = False

    def as_fault(self) -> Fault:
        """Return the fault of an instance whose step failed."""
        return Fault(500, self.error or "", f"Host: {self.host}\n{self.details or self.error}")


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


@dataclass(frozen=True, slots=True)
class MigrationProgress:
    """How far the copying of a ``LiveMigrate`` is; told about every second. Says nothing of success."""

    step: StepId
    host: str
    instance_uuid: str
    memory_total_bytes: int = 0
    memory_processed_bytes: int = 0
    memory_remaining_bytes: int = 0
    disk_total_bytes: int = 0
    disk_processed_bytes: int = 0
    disk_remaining_bytes: int = 0

    @property
    def percent(self) -> int:
        """How much of memory and disk is copied."""
        total = self.memory_total_bytes + self.disk_total_bytes
        return 100 * (self.memory_processed_bytes + self.disk_processed_bytes) // total if total else 0


# --- sessions ---------------------------------------------------------------------------------------------------------
#
# One life of a process with agents, from its report of hosts and guests to its end or the lapse of its lease, is a
# session (ADR 20). What an agent of an earlier one was sent is void.


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A process with agents is alive, and so are its ``hosts``. ``number`` counts up within its ``session``."""

    hosts: tuple[str, ...] = ()
    session: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """Answer to :class:`Heartbeat`. ``counts``: whether the session is alive for all others, too.

    Where it is not its hosts may be counted as gone, so the process reports them again, in a new session.
    """

    session: str
    number: int
    counts: bool


@dataclass(frozen=True, slots=True)
class HostsStarted:
    """Agents came up: what their hypervisors are and which guests they found.

    ``session``: which life of their process; several of these messages may belong to one. ``release``: what it runs,
    ``machine``: where.
    ``marked``: host → guest → when the order to make it was given, for guests that bear our mark. An agent of a release
    that knows no marks leaves it empty, and none of its guests is removed.
    """

    reports: tuple[NodeReport, ...]
    guests: Mapping[str, Mapping[str, PowerState]] = field(default_factory=dict)
    session: str = ""
    release: str = ""
    marked: Mapping[str, Mapping[str, datetime]] = field(default_factory=dict)
    machine: str = ""


@dataclass(frozen=True, slots=True)
class GuestsFound:
    """Which guests hosts have, told from time to time and when somebody asks; ``marked`` as in :class:`HostsStarted`.

    ``asked``: the only guests that this is about; None stands for all that the hosts have.
    """

    guests: Mapping[str, Mapping[str, PowerState]]
    marked: Mapping[str, Mapping[str, datetime]] = field(default_factory=dict)
    asked: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Orphans:
    """Answer to :class:`HostsStarted`.

    ``removals``: host → guests that a record says have to go; see :class:`RemoveGuest`.
    ``lease_s``: how long the process may act for its hosts after it has said that it is alive.
    """

    removals: Mapping[str, tuple[Removal, ...]] = field(default_factory=dict)
    lease_s: float = 60.0


ConductorMessage = StepReply | StepStatus | MigrationProgress | GuestsFound
#: What a process with agents asks, and waits for the :data:`Answer` of.
Question = HostsStarted | Heartbeat
Answer = Orphans | HeartbeatAnswer
