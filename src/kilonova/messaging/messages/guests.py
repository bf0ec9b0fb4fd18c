# SPDX-License-Identifier: Apache-2.0
"""Orders to the host of a guest, and reports that list the guests of a host."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime

from kilonova.messaging.messages.steps import StepId
from kilonova.model.found_guest import Removal
from kilonova.model.instance import GuestSpec, PowerState
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class SpawnGuest:
    step: StepId
    guest: GuestSpec

    @property
    def instance_uuid(self) -> str:
        return self.guest.uuid


@dataclass(frozen=True, slots=True)
class RebuildGuest:
    """Replace a guest and its disk by a new guest as described in ``guest``.

    ``power_on``: whether the new guest is started. No error if this order has already created the guest.
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
    """Reboot a guest. The agent sends ``TaskReached`` when the reboot is queued, and again when it starts.

    A soft reboot shuts the guest down cleanly and starts it. If the guest is not running, the agent only replies with
    its power state, and the conductor orders a hard reboot. ``hard``: a hard reboot. It creates a guest that is missing
    on the host from the description ``guest``. If ``guest`` is None, the agent replies that the guest is missing, and
    the conductor repeats the order with a description. ``begun``: an earlier attempt may have done the reboot, so a
    running guest is not rebooted.
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
    """Shut a guest down cleanly, and power it off if it still runs after ``timeout_s`` seconds.

    ``timeout_s``: 0 powers the guest off at once; None is the ``shutdown_timeout`` of the host.
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
    """Write the memory of a guest to its disk, and power the guest off."""

    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class ResumeGuest:
    """Power a suspended guest on with its saved memory."""

    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class RemoveGuest:
    """Remove a guest named by a removal record, unless the guest is newer than the record or has no mark of Kilonova.

    The order belongs to no workflow. The option ``running_deleted_instance_action`` may keep the guest of a deleted
    server.
    """

    step: StepId
    removal: Removal

    @property
    def instance_uuid(self) -> str:
        return self.removal.instance_uuid


@dataclass(frozen=True, slots=True)
class AskGuests:
    """Query for the guests ``instance_uuids``: which of them exist on the host. Answered with :class:`GuestsFound`.

    The agent waits for the hypervisor, but not for queued orders. The query belongs to no workflow.
    """

    step: StepId
    instance_uuids: tuple[str, ...]

    @property
    def instance_uuid(self) -> str:
        """Empty: the query is about several instances."""
        return ""


@dataclass(frozen=True, slots=True)
class GuestsFound:
    """Report of the guests of hosts, sent periodically and as the answer to :class:`AskGuests`.

    ``guests``: host → guest → power state. ``marked``: as in ``HostsStarted``.
    ``asked``: the guests that were queried; None if the report covers all guests of the hosts.
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
