# SPDX-License-Identifier: Apache-2.0
"""Registration and heartbeats of processes with agents.

A session of such a process begins when it registers its hosts and guests. The session ends when the process stops or
its lease expires (ADR 20). Messages that were sent to an earlier session are dropped.
"""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime

from kilonova.messaging.messages.cold_moves import PendingRollback
from kilonova.model.found_guest import Removal
from kilonova.model.host import NodeReport
from kilonova.model.instance import PowerState
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Heartbeat of a process with agents, for all hosts of its ``session``. ``number`` counts the session's heartbeats.

    ``hosts``: only sent by agents of earlier releases; now the session identifies the hosts.
    """

    hosts: tuple[str, ...] = ()
    session: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """Answer to :class:`Heartbeat`. ``counts``: False if the session has expired.

    The hosts of an expired session may have been declared down, so the agent process registers them in a new session.
    """

    session: str
    number: int
    counts: bool


@dataclass(frozen=True, slots=True)
class HostsStarted:
    """Registration of hosts by the process that runs their agents: the hypervisors and the guests on these hosts.

    ``session``: session of the process, which may send several messages to register all its hosts. ``release``:
    Kilonova release of the process. ``machine``: the machine that the process runs on.
    ``marked``: host → guest → time of the order that created the guest, for guests whose metadata has Kilonova's mark.
    An agent of a release without marks leaves ``marked`` empty, and none of its guests is removed.
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

    ``removals``: host → guests to remove because of removal records, as with ``RemoveGuest``.
    ``lease_s``: seconds for which the process may act for its hosts after each heartbeat.
    ``homecomings``: host → pending rollbacks of moves. An agent of an earlier release ignores the rollbacks, and
    receives them again at its next registration.
    """

    removals: Mapping[str, tuple[Removal, ...]] = field(default_factory=dict)
    lease_s: float = 60.0
    homecomings: Mapping[str, tuple[PendingRollback, ...]] = field(default_factory=dict)


SessionQuestion = HostsStarted | Heartbeat
SessionAnswer = HostsRegistered | HeartbeatAnswer
