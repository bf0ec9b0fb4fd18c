# SPDX-License-Identifier: Apache-2.0
"""Orders about one guest where it is, and which guests a host has."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kilonova.messaging.messages.steps import StepId
from kilonova.model.found_guest import Removal
from kilonova.model.instance import GuestSpec, PowerState


@dataclass(frozen=True, slots=True)
class SpawnGuest:
    step: StepId
    guest: GuestSpec

    @property
    def instance_uuid(self) -> str:
        return self.guest.uuid


@dataclass(frozen=True, slots=True)
class RebuildGuest:
    """Make a guest as it is described, in place of one that is there; whatever was on its disk is gone.

    ``power_on``: whether it runs then. One that was made by this order already is success.
    """

    step: StepId
    guest: GuestSpec
    power_on: bool = True

    @property
    def instance_uuid(self) -> str:
        return self.guest.uuid


@dataclass(frozen=True, slots=True)
class DestroyGuest:
    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class RebootGuest:
    """Reboot a guest; told with :class:`TaskReached` when it has to wait for its turn, and when it begins.

    A soft reboot shuts the guest down in order and starts it, a ``hard`` one makes a guest anew that is gone, from the
    description ``guest``. Where a guest does not run, or is gone without a description, nothing is done: the reply
    tells its state, and a hard reboot with the description is ordered.
    ``begun``: somebody has begun with it before, so a guest that runs is left alone.
    """

    step: StepId
    instance_uuid: str
    hard: bool = False
    guest: GuestSpec | None = None
    begun: bool = False


@dataclass(frozen=True, slots=True)
class StartGuest:
    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class StopGuest:
    """Ask a guest to shut down, and power it off if it has not after ``timeout_s``; 0: at once.

    None stands for the ``shutdown_timeout`` of the host.
    """

    step: StepId
    instance_uuid: str
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class PauseGuest:
    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class UnpauseGuest:
    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class SuspendGuest:
    """Write the memory of a guest to its disk, and power it off."""

    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class ResumeGuest:
    """Power a guest on with the memory that it had when it was suspended."""

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


@dataclass(frozen=True, slots=True)
class GuestsFound:
    """Which guests hosts have, told from time to time and when somebody asks; ``marked`` as in :class:`HostsStarted`.

    ``asked``: the only guests that this is about; None stands for all that the hosts have.
    """

    guests: Mapping[str, Mapping[str, PowerState]]
    marked: Mapping[str, Mapping[str, datetime]] = field(default_factory=dict)
    asked: tuple[str, ...] | None = None


GuestOrder = (
    SpawnGuest
    | RebuildGuest
    | DestroyGuest
    | RebootGuest
    | StartGuest
    | StopGuest
    | PauseGuest
    | UnpauseGuest
    | SuspendGuest
    | ResumeGuest
    | RemoveGuest
)
