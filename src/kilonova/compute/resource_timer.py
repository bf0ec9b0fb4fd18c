# SPDX-License-Identifier: Apache-2.0
"""One timer for all agents of a process: every interval, whether their hypervisors are still what they said."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from kilonova.compute.agent import Agent
from kilonova.compute.sessions import report_again
from kilonova.errors import HypervisorAway
from kilonova.messaging.bus import AgentBus
from kilonova.model.host import NodeReport
from kilonova.periodic import PeriodicPart, PeriodicThread

LOG = logging.getLogger(__name__)
#: As in Nova, what is to be done every 0 seconds is done this often.
_DEFAULT_S = 60.0


class ResourceTimer(PeriodicPart):
    """Reports the hypervisors of ``agents`` that have changed. Nothing is sent for those that have not.

    ``session``: of the process at present, "" while it has none. Units: ``interval_s`` seconds; a negative one stands
    for never.
    """

    def __init__(self, bus: AgentBus, agents: Sequence[Agent], session: Callable[[], str], interval_s: float) -> None:
        self._bus = bus
        self._agents = tuple(agents)
        self._session = session
        self._told: dict[str, NodeReport] = {}
        thread = PeriodicThread(
            "resources",
            self.look,
            interval_s or _DEFAULT_S,
            description="Agents report hypervisors whose resources have changed.",
            complaint="Changed hypervisors were not reported",
        )
        super().__init__("resources", [thread] if self._agents and interval_s >= 0 else [])

    def start(self) -> None:
        """Begin, before the hypervisors are reported for the first time: what changes from now on is noticed."""
        if self.periodic_threads:
            for agent in self._agents:
                with suppress(HypervisorAway):  # nothing is reported of it until it is there
                    self._told[agent.host] = agent.report()
        super().start()

    def look(self) -> None:
        """Report what has changed. A hypervisor that does not answer keeps no other one waiting."""
        session = self._session()
        if not session:
            return  # what begins reports everything
        changed: list[Agent] = []
        reports: dict[str, NodeReport] = {}
        for agent in self._agents:
            try:
                report = agent.report()
            except Exception:
                LOG.exception("Host %s: what it has is unknown", agent.host)
                continue
            if report != self._told.get(agent.host):
                changed.append(agent)
                reports[agent.host] = report
        if changed:
            LOG.info("%d hosts have changed: %s", len(changed), ", ".join(sorted(reports)))
            report_again(changed, self._bus, session)
            self._told |= reports
