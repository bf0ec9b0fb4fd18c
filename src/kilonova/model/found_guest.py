# SPDX-License-Identifier: Apache-2.0
"""Guests as hosts report them, and what they are when they are not where their server is recorded (ADR 21)."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kilonova.model.instance import PowerState


@dataclass(frozen=True, slots=True)
class FoundGuest:
    """A guest that a host reports.

    ``ordered_at``: when the conductor gave the order to make it, which the driver keeps with our mark in the guest's
    own metadata; None for a guest without that mark.
    """

    power_state: PowerState
    ordered_at: datetime | None = None


class RemovalReason(StrEnum):
    """What a record says of a guest: it has to go from the host that has it."""

    #: Its server is deleted. What becomes of it says ``running_deleted_instance_action``.
    DELETED = "deleted"
    #: Its server left this host, or never came to be there: what is there is one guest too many.
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Removal:
    """A guest to remove, provided that its order is not younger than the record that says so.

    ``recorded_at``: of that record; ``age_s``: how long ago that was when this was decided.
    ``keeps``: it is only powered off and kept, since it may be wanted again. An agent of an earlier release removes it.
    """

    instance_uuid: str
    departure: RemovalReason
    recorded_at: datetime
    age_s: float = 0.0
    keeps: bool = False

    def covers(self, ordered_at: datetime | None) -> bool:
        """Tell whether the record speaks of a guest: one that bears our mark and was there when it was written."""
        return ordered_at is not None and ordered_at <= self.recorded_at


class StrayKind(StrEnum):
    """What is odd about a guest that is kept, or about a server without one."""

    #: There is no server of this id.
    UNKNOWN = "unknown"
    #: The server is recorded on another host, and nothing says that it left this one.
    ELSEWHERE = "elsewhere"
    #: The server is recorded on no host.
    NOWHERE = "nowhere"
    #: A record says that it has to go, but it was made after that was written.
    NEWER = "newer"
    #: It does not bear our mark.
    UNMARKED = "unmarked"
    #: The other way round: a server is recorded here, and the host has no such guest.
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class StrayGuest:
    """One thing in which a host's report and the database differ.

    ``recorded_host``: where the server is according to the database. ``since``: when a report said so first.
    """

    host: str
    instance_uuid: str
    oddity: StrayKind
    power_state: PowerState = PowerState.NOSTATE
    recorded_host: str | None = None
    since: datetime | None = None
    id: int = 0

    @property
    def is_stray(self) -> bool:
        """Whether there is a guest at all."""
        return self.oddity is not StrayKind.MISSING
