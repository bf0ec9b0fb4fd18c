# SPDX-License-Identifier: Apache-2.0
"""Periodic report of the guests of all hosts of a process."""

import logging
from collections.abc import Iterable, Iterator, Sequence

from kilonova.compute.agent import Agent, guests_of
from kilonova.messaging.bus import AgentBus
from kilonova.messaging.messages import GuestsFound
from kilonova.periodic import PeriodicPart, PeriodicThread

LOG = logging.getLogger(__name__)
_TOLD_TOGETHER = 200
#: Seconds between two reports if the configured interval is 0, as in Nova.
_DEFAULT_S = 60.0


class ReportTimer(PeriodicPart):
    """Reports the guests of ``agents``. ``interval_s``: seconds between two reports; negative disables the report."""

    def __init__(self, bus: AgentBus, agents: Sequence[Agent], interval_s: float) -> None:
        self._bus = bus
        self._agents = tuple(agents)
        thread = PeriodicThread(
            "guest reports",
            self.report,
            interval_s or _DEFAULT_S,
            description="Agents report the guests of their hosts.",
            complaint="The report of guests failed",
        )
        super().__init__("guest reports", [thread] if self._agents and interval_s >= 0 else [])

    def report(self) -> None:
        """Report all guests. A host whose hypervisor does not answer is skipped."""
        for start in range(0, len(self._agents), _TOLD_TOGETHER):
            found = tuple(_answered(self._agents[start : start + _TOLD_TOGETHER]))
            guests = {host: guests for each in found for host, guests in each.guests.items()}
            marked = {host: marks for each in found for host, marks in each.marked.items()}
            if guests:
                self._bus.tell(GuestsFound(guests, marked))


def _answered(agents: Iterable[Agent]) -> Iterator[GuestsFound]:
    for agent in agents:
        try:
            yield guests_of([agent])
        except Exception:
            LOG.exception("Host %s: the guests could not be listed", agent.host)
