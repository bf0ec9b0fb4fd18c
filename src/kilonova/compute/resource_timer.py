# SPDX-License-Identifier: Apache-2.0
"""Periodic report of the hypervisors whose resources have changed."""

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
#: Seconds between two checks for changes if the configured interval is 0, as in Nova.
_DEFAULT_S = 60.0


class ResourceTimer(PeriodicPart):
    """Reports each hypervisor of ``agents`` that has changed since its last report.

    ``session``: returns the ID of the process's present session, or "" if there is none.
    ``interval_s``: seconds between two checks for changes; negative disables the checks.
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
            complaint="The report of changed hypervisors failed",
        )
        super().__init__("resources", [thread] if self._agents and interval_s >= 0 else [])

    def start(self) -> None:
        """Store the present node reports, which later reports are compared with, then start the periodic task.

        To be called before the hypervisors are reported for the first time, so that no later change is missed.
        """
        if self.periodic_threads:
            for agent in self._agents:
                with suppress(HypervisorAway):  # the next check reports this hypervisor as changed
                    self._told[agent.host] = agent.report()
        super().start()

    def look(self) -> None:
        """Report the hypervisors that have changed. A hypervisor that does not answer is skipped."""
        session = self._session()
        if not session:
            return  # no session: the next session reports all hypervisors
        changed: list[Agent] = []
        reports: dict[str, NodeReport] = {}
        for agent in self._agents:
            try:
                report = agent.report()
            except Exception:
                LOG.exception("Host %s: its resources could not be read", agent.host)
                continue
            if report != self._told.get(agent.host):
                changed.append(agent)
                reports[agent.host] = report
        if changed:
            LOG.info("The resources of %d hosts have changed: %s", len(changed), ", ".join(sorted(reports)))
            report_again(changed, self._bus, session)
            self._told |= reports
