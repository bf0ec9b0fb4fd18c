# SPDX-License-Identifier: Apache-2.0
"""A process with agents: their sessions go on in the background until it is told to stop."""

import logging
from collections.abc import Sequence
from typing import Protocol

from kilonova.compute.agent import Agent
from kilonova.compute.power_reports import PowerReports
from kilonova.compute.resource_timer import ResourceTimer
from kilonova.compute.sessions import Sessions
from kilonova.lease import Lease
from kilonova.messaging.bus import AgentBus
from kilonova.periodic import PeriodicPart, PeriodicThread
from kilonova.process_parts import PartOf, ProcessParts

LOG = logging.getLogger(__name__)
#: How soon the control side is asked again that has not answered a report of the hosts.
_TRY_AGAIN_S = 1.0


class OpenBus(AgentBus, Protocol):
    """A bus that has to be started and closed."""

    def start(self) -> None:
        """Connect, now or as soon as that is possible."""

    def close(self) -> None:
        """Take nothing more, wait for what runs, and send what came of it."""


class AgentProcess:
    """``lease``: what tells the ``agents`` whether they may act. ``interval_s``: seconds between heartbeats.

    ``power``: reports in which power states guests are, when a session begins and from time to time. ``resources_s``:
    seconds between two looks at whether the hypervisors have changed. ``others``: further parts with periodic tasks.
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
        others: Sequence[PeriodicPart] = (),
    ) -> None:
        self._agents = tuple(agents)
        self._bus = bus
        self._lease = lease
        self._periodic = (*others, power)
        self._sessions = Sessions(agents, bus, lease, interval_s, on_begun=power.came_up)
        self._resources = ResourceTimer(bus, agents, lambda: self._sessions.session, resources_s)
        self._thread = PeriodicThread(
            "sessions",
            self._sessions.turn,
            self._pause_s,
            description="Report hosts to a control process, and send heartbeats.",
            complaint="No session goes on, and it is tried again until one does",
            from_start=True,
        )
        self._parts = ProcessParts()

    def start(self) -> None:
        LOG.info("Agents of %d hosts start: %s", len(self._agents), _some(self._agents))
        parts = self._parts
        with parts.stopped_on_failure():
            # A turn may wait for an answer until the bus is closed: it is asked to end first, and waited for last.
            parts.opened("end of the session", self._thread.stop)
            parts.start(PartOf("bus", self._bus.start, self._bus.close))
            for agent in self._agents:
                parts.opened(f"agent of {agent.host}", agent.stop)
            parts.start(self._resources)
            for part in self._periodic:
                parts.start(part)
            parts.start(PartOf("sessions", self._thread.start, self._thread.ask_to_stop))

    def stop(self) -> None:
        """Finish what runs, leave what copies guests as it is, and tell what came of it."""
        LOG.info("Agents of %d hosts stop", len(self._agents))
        self._parts.stop()

    def _pause_s(self) -> float:
        return self._sessions.pause_s if self._lease.is_held else _TRY_AGAIN_S


def _some(agents: Sequence[Agent]) -> str:
    names = [agent.host for agent in agents]
    return ", ".join(names) if len(names) <= 5 else f"{', '.join(names[:3])} … {names[-1]}"
