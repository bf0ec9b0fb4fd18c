# SPDX-License-Identifier: Apache-2.0
"""A process with agents: a background thread runs their sessions until the process stops."""

import logging
from collections.abc import Sequence
from typing import Protocol

from kilonova.compute.agent import Agent
from kilonova.compute.power_reports import PowerReports
from kilonova.compute.resource_timer import ResourceTimer
from kilonova.compute.sessions import Sessions
from kilonova.lease import Lease
from kilonova.messaging.bus import AgentBus
from kilonova.periodic import PeriodicThread
from kilonova.process_parts import Part, PartOf, ProcessParts

LOG = logging.getLogger(__name__)
#: Seconds between two attempts to send a heartbeat or to begin a session while the process does not hold the lease.
_TRY_AGAIN_S = 1.0


class OpenBus(AgentBus, Protocol):
    """A bus that has to be started and closed."""

    def start(self) -> None:
        """Connect now, or, if that fails, retry in the background until a connection is made."""

    def close(self) -> None:
        """Accept no more messages, wait for the running orders, and send the replies to these orders."""


class AgentProcess:
    """The agents of one process, with their bus, sessions and periodic tasks.

    ``lease``: tells the ``agents`` whether they may act. ``interval_s``: seconds between heartbeats.
    ``power``: reports the power states of guests at the start of a session and periodically.
    ``resources_s``: seconds between two checks for changed hypervisors; negative disables the check.
    ``others``: further parts of the process.
    """

    def __init__(
        self,
        agents: Sequence[Agent],
        bus: OpenBus,
        lease: Lease,
        interval_s: float,
        power: PowerReports,
        *,
        resources_s: float = -1.0,
        others: Sequence[Part] = (),
    ) -> None:
        self._agents = tuple(agents)
        self._bus = bus
        self._lease = lease
        self._others = (*others, power)
        self._sessions = Sessions(agents, bus, lease, interval_s, on_begun=power.came_up)
        self._resources = ResourceTimer(bus, agents, lambda: self._sessions.session, resources_s)
        self._thread = PeriodicThread(
            "sessions",
            self._sessions.turn,
            self._pause_s,
            description="Report hosts to a control process, and send heartbeats.",
            complaint="The session with the control process failed; it is retried",
            from_start=True,
        )
        self._parts = ProcessParts()

    def start(self) -> None:
        LOG.info("Starting the agents of %d hosts: %s", len(self._agents), _some(self._agents))
        parts = self._parts
        with parts.stopped_on_failure():
            # The session thread may block in a request until the bus is closed. Parts are stopped in reverse order, so
            # the thread is asked to stop before the bus is closed, and joined last.
            parts.opened("end of the session", self._thread.stop)
            parts.start(PartOf("bus", self._bus.start, self._bus.close))
            for agent in self._agents:
                parts.opened(f"agent of {agent.host}", agent.stop)
            parts.start(self._resources)
            for part in self._others:
                parts.start(part)
            parts.start(PartOf("sessions", self._thread.start, self._thread.ask_to_stop))

    def stop(self) -> None:
        """Finish running orders and send their replies. Disk copies in progress are abandoned without cleanup."""
        LOG.info("Stopping the agents of %d hosts", len(self._agents))
        self._parts.stop()

    def _pause_s(self) -> float:
        return self._sessions.pause_s if self._lease.is_held else _TRY_AGAIN_S


def _some(agents: Sequence[Agent]) -> str:
    names = [agent.host for agent in agents]
    return ", ".join(names) if len(names) <= 5 else f"{', '.join(names[:3])} … {names[-1]}"
