# SPDX-License-Identifier: Apache-2.0
"""In which power states the guests of all agents of a process are: told at the start, from time to time, and at once.

At once is what a hypervisor says by itself: a guest that was shut down from within, or that somebody at the host has
stopped, paused or removed.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kilonova.compute.agent import Agent
from kilonova.messaging.bus import AgentBus
from kilonova.messaging.messages import PowerStates
from kilonova.model.instance import PowerState
from kilonova.periodic import PeriodicPart, PeriodicThread

LOG = logging.getLogger(__name__)
_TOLD_TOGETHER = 200
#: As in Nova, what is to be done every 0 seconds is done this often.
_DEFAULT_S = 60.0
#: How often hypervisors are asked what has happened there.
_EVENTS_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class PowerReporting:
    """``interval_s``: seconds between two whole reports, negative for none.

    ``events``: whether changes are told at once.
    ``resume``: whether guests that ran before their host lost power are to run again.
    """

    interval_s: float = 600.0
    events: bool = True
    resume: bool = False


class PowerReports(PeriodicPart):
    """The reports of ``agents``. Whoever begins a session for them calls :meth:`came_up`."""

    def __init__(self, bus: AgentBus, agents: Sequence[Agent], how: PowerReporting) -> None:
        self._bus = bus
        self._agents = tuple(agents)
        self._how = how
        self._has_come_up = False
        self._has_looked = False
        super().__init__("power states", tuple(self._switched_on()) if agents else ())

    def _switched_on(self) -> Iterator[PeriodicThread]:
        if self._how.interval_s >= 0:
            yield PeriodicThread(
                "power states",
                self.report,
                self._how.interval_s or _DEFAULT_S,
                description="Agents report the power states of all guests.",
                complaint="Power states were not reported",
            )
        if self._how.events:
            yield PeriodicThread(
                "events",
                self.report_events,
                _EVENTS_EVERY_S,
                description="Agents report guests that have stopped, paused or gone by themselves.",
                complaint="Events were not reported",
            )

    def came_up(self) -> None:
        """The agents serve their hosts: report all guests, if that is done at all. What changes later is an event."""
        is_first, self._has_come_up = not self._has_come_up, True
        if self._how.events and not self._has_looked:
            self._changed()
        resume = is_first and self._how.resume
        if self._how.interval_s >= 0 or resume:
            self.report(resume=resume)

    def report(self, *, resume: bool = False) -> None:
        """Report all guests. A host whose hypervisor does not answer is left out, and keeps no other one waiting."""
        for start in range(0, len(self._agents), _TOLD_TOGETHER):
            guests: dict[str, Mapping[str, PowerState]] = {}
            for agent in self._agents[start : start + _TOLD_TOGETHER]:
                try:
                    guests[agent.host] = dict(agent.driver.list_guests())
                except Exception:
                    LOG.exception("Host %s: the states of its guests are unknown", agent.host)
            if guests:
                self._bus.tell(PowerStates(guests, resume=resume))

    def report_events(self) -> None:
        """Report the guests that have changed by themselves since the last time."""
        if changed := self._changed():
            self._bus.tell(PowerStates(changed, whole=False))

    def _changed(self) -> dict[str, Mapping[str, PowerState]]:
        """Return the guests that have changed by themselves since the last time, by host."""
        self._has_looked = True
        changed: dict[str, Mapping[str, PowerState]] = {}
        for agent in self._agents:
            try:
                found = agent.driver.changed_guests()
            except Exception:
                LOG.exception("Host %s: what has happened there is unknown", agent.host)
            else:
                if found:
                    changed[agent.host] = dict(found)
        return changed
