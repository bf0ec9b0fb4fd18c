# SPDX-License-Identifier: Apache-2.0
"""Guests that hosts report, and stray guests: differences between such a report and the database (ADR 21)."""

from datetime import datetime
from enum import StrEnum

from kilonova.model.instance import PowerState
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class FoundGuest:
    """A guest that a host reports.

    ``ordered_at``: time when the conductor ordered the guest's creation. The driver stores that time in the guest's
    metadata as Kilonova's mark. None for a guest without the mark.
    """

    power_state: PowerState
    ordered_at: datetime | None = None


class RemovalReason(StrEnum):
    """Reason why a guest is to be removed from a host."""

    #: The server of the guest is deleted. ``running_deleted_instance_action`` decides what happens to the guest.
    DELETED = "deleted"
    #: The server was moved or offloaded from this host, its build or move to this host was rolled back, or an operator
    #: ordered the removal of a stray guest.
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Removal:
    """A pending removal of a guest. A guest whose creation was ordered after ``recorded_at`` is not removed.

    ``recorded_at``: when the removal was recorded; ``age_s``: age of that record in seconds, when the removal was sent.
    ``keeps``: True to power the guest off but keep it, because it may be needed again. Agents of earlier releases
    ignore ``keeps`` and remove the guest.
    """

    instance_uuid: str
    departure: RemovalReason
    recorded_at: datetime
    age_s: float = 0.0
    keeps: bool = False

    def covers(self, ordered_at: datetime | None) -> bool:
        """Tell whether the removal applies to a guest that was ordered at ``ordered_at`` (None: it has no mark)."""
        return ordered_at is not None and ordered_at <= self.recorded_at


class StrayKind(StrEnum):
    """Kind of a difference between a host's guests and the database. Differences are reported, but not repaired."""

    #: The guest's uuid belongs to no server.
    UNKNOWN = "unknown"
    #: The server is recorded on another host, and no pending removal exists for the guest on this host.
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

    ``recorded_host``: the server's host in the database. ``since``: time of the first report with this difference.
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
        """True if the host has a guest that it should not have; False if the guest of a server is missing."""
        return self.oddity is not StrayKind.MISSING
