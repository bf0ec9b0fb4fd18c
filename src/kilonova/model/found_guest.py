# SPDX-License-Identifier: Apache-2.0
"""Guests in reports of hosts, and stray guests: guests that contradict the database (ADR 21)."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kilonova.model.instance import PowerState


@dataclass(frozen=True, slots=True)
class FoundGuest:
    """A guest that a host reports.

    ``ordered_at``: when the conductor ordered its creation. The driver stores that time in the guest's metadata as
    Kilonova's mark; None for a guest without the mark.
    """

    power_state: PowerState
    ordered_at: datetime | None = None


class RemovalReason(StrEnum):
    """Reason why a pending removal removes a guest from a host."""

    #: Its server is deleted; ``running_deleted_instance_action`` decides what happens to the guest.
    DELETED = "deleted"
    #: Its server left this host (move, offload), or never arrived (rolled back), or an operator removes a stray guest.
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Removal:
    """A pending removal of a guest. It does not apply to a guest that was ordered after the removal was recorded.

    ``recorded_at``: when the removal was recorded; ``age_s``: age of the record at the decision, in seconds.
    ``keeps``: the guest is only powered off, because it may be needed again. Agents of earlier releases remove it.
    """

    instance_uuid: str
    departure: RemovalReason
    recorded_at: datetime
    age_s: float = 0.0
    keeps: bool = False

    def covers(self, ordered_at: datetime | None) -> bool:
        """Tell whether the removal applies to a guest: it has Kilonova's mark and was ordered before the record."""
        return ordered_at is not None and ordered_at <= self.recorded_at


class StrayKind(StrEnum):
    """Kind of difference between a host's guests and the database that is reported but not repaired."""

    #: The guest's uuid belongs to no server.
    UNKNOWN = "unknown"
    #: The server is recorded on another host, and no pending removal exists for this one.
    ELSEWHERE = "elsewhere"
    #: The server is recorded on no host.
    NOWHERE = "nowhere"
    #: A pending removal exists, but the order that created the guest is newer.
    NEWER = "newer"
    #: The guest has no mark of Kilonova.
    UNMARKED = "unmarked"
    #: The server is recorded on this host, but the host has no guest for it.
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class StrayGuest:
    """A difference between a host's report and the database.

    ``recorded_host``: the server's host according to the database. ``since``: time of the first such report.
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
        """Whether a guest exists; False for a server whose guest is missing."""
        return self.oddity is not StrayKind.MISSING
