# SPDX-License-Identifier: Apache-2.0
"""A process with agents: their sessions go on in the background until it is told to stop."""

import logging
from collections.abc import Sequence
from typing import Protocol

from kilonova.compute.agent import Agent
from kilonova.compute.image_cache import ImageCacheManager
from kilonova.compute.power_reports import PowerReports
from kilonova.compute.report_timer import ReportTimer
from kilonova.compute.resource_timer import ResourceTimer
from kilonova.compute.sessions import Sessions
from kilonova.lease import Lease
from kilonova.messaging.bus import AgentBus
from kilonova.periodic import PeriodicThread

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

    ``reports``: tells from time to time which guests there are, ``power``: in which states they are. ``resources_s``:
    seconds between two looks at whether the hypervisors have changed. ``image_cache``: looks after their images.
    """

    def __init__(
        self,
        agents: Sequence[Agent],
        bus: OpenBus,
        lease: Lease,
        interval_s: float,
        reports: ReportTimer,
        power: PowerReports,
        *,
        resources_s: float = -1.0,
        image_cache: ImageCacheManager | None = None,
    ) -> None:
        self._agents = tuple(agents)
        self._bus = bus
        self._lease = lease
        self._reports = reports
        self._image_cache = image_cache or ImageCacheManager((), -1, None)
        self._power = power
        self._sessions = Sessions(agents, bus, lease, interval_s, on_begun=power.came_up)
        self._resources = ResourceTimer(bus, agents, lambda: self._sessions.session, resources_s)
        self._thread = PeriodicThread(
            "sessions",
            self._sessions.turn,
            self._pause_s,
            complaint="No session goes on, and it is tried again until one does",
            from_start=True,
        )

    def start(self) -> None:
        LOG.info("Agents of %d hosts start: %s", len(self._agents), _some(self._agents))
        self._resources.start()
        self._bus.start()
        self._thread.start()
        self._reports.start()
        self._image_cache.start()
        self._power.start()

    def stop(self) -> None:
        """Finish what runs, leave what copies guests as it is, and tell what came of it."""
        LOG.info("Agents of %d hosts stop", len(self._agents))
        self._thread.ask_to_stop()
        self._reports.stop()
        self._image_cache.stop()
        self._power.stop()
        self._resources.stop()
        for agent in self._agents:
            agent.stop()
        self._bus.close()
        self._thread.stop()

    def _pause_s(self) -> float:
        return self._sessions.pause_s if self._lease.is_held else _TRY_AGAIN_S


def _some(agents: Sequence[Agent]) -> str:
    names = [agent.host for agent in agents]
    return ", ".join(names) if len(names) <= 5 else f"{', '.join(names[:3])} … {names[-1]}"
