# SPDX-License-Identifier: Apache-2.0
"""How a process with agents begins, and tells that it is alive.

One life of such a process, from its report of hosts and guests to its end or the lapse of its lease, is a session
(ADR 20). What an agent of an earlier one was sent is void.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kilonova.messaging.messages.cold_moves import PendingRollback
from kilonova.model.found_guest import Removal
from kilonova.model.host import NodeReport
from kilonova.model.instance import PowerState


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A process with agents is alive, and so are the hosts of its ``session``. ``number`` counts up within that.

    ``hosts``: named by agents of earlier releases, again each time; the session tells which they are.
    """

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
class HostsRegistered:
    """Answer to :class:`HostsStarted`.

    ``removals``: host → guests that a record says have to go; see :class:`RemoveGuest`.
    ``lease_s``: how long the process may act for its hosts after it has said that it is alive.
    ``homecomings``: host → guests that it has to take back. An agent of an earlier release passes them over, and is
    told again when it starts the next time.
    """

    removals: Mapping[str, tuple[Removal, ...]] = field(default_factory=dict)
    lease_s: float = 60.0
    homecomings: Mapping[str, tuple[PendingRollback, ...]] = field(default_factory=dict)


#: What a process with agents asks, and waits for the :data:`Answer` of.
Question = HostsStarted | Heartbeat
Answer = HostsRegistered | HeartbeatAnswer
