# SPDX-License-Identifier: Apache-2.0
"""Reports of the power states of guests: at the start of a session, periodically, and on events.

Events are changes that no order caused: a guest was shut down from within, or an operator on the host stopped, paused
or removed it.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence

from kilonova.compute.agent import Agent
from kilonova.messaging.bus import AgentBus
from kilonova.messaging.messages import PowerStates
from kilonova.model.instance import PowerState
from kilonova.periodic import PeriodicPart, PeriodicThread
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
_TOLD_TOGETHER = 200
#: Seconds between two full reports if the configured interval is 0, as in Nova.
_DEFAULT_S = 60.0
#: Interval at which hypervisors are polled for events, in seconds.
_EVENTS_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class PowerReporting:
    """Settings of the power reports.

    ``interval_s``: seconds between two full reports; negative disables full reports.
    ``events``: whether changes that no order caused are reported at once.
    ``resume``: whether guests that ran before their host lost power are started again.
    """

    interval_s: float = 600.0
    events: bool = True
    resume: bool = False


class PowerReports(PeriodicPart):
    """Reports power states of the guests of ``agents``.

    The session thread calls :meth:`came_up` for each new session.
    """

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
                complaint="The report of power states failed",
            )
        if self._how.events:
            yield PeriodicThread(
                "events",
                self.report_events,
                _EVENTS_EVERY_S,
                description="Agents report guests that were stopped, paused or removed without an order.",
                complaint="The report of events failed",
            )

    def came_up(self) -> None:
        """Report all guests at the start of a session, if full reports or the resumption of guests are enabled.

        Only changes after the start of the first session are reported as events.
        """
        is_first, self._has_come_up = not self._has_come_up, True
        if self._how.events and not self._has_looked:
            self._changed()
        resume = is_first and self._how.resume
        if self._how.interval_s >= 0 or resume:
            self.report(resume=resume)

    def report(self, *, resume: bool = False) -> None:
        """Report the power states of all guests. A host whose hypervisor does not answer is skipped."""
        for start in range(0, len(self._agents), _TOLD_TOGETHER):
            guests: dict[str, Mapping[str, PowerState]] = {}
            for agent in self._agents[start : start + _TOLD_TOGETHER]:
                try:
                    guests[agent.host] = dict(agent.driver.list_guests())
                except Exception:
                    LOG.exception("Host %s: the power states of its guests could not be read", agent.host)
            if guests:
                self._bus.tell(PowerStates(guests, resume=resume))

    def report_events(self) -> None:
        """Report the guests whose power state changed without an order since the last call."""
        if changed := self._changed():
            self._bus.tell(PowerStates(changed, whole=False))

    def _changed(self) -> dict[str, Mapping[str, PowerState]]:
        """Return host → guests whose power state changed without an order since the last call."""
        self._has_looked = True
        changed: dict[str, Mapping[str, PowerState]] = {}
        for agent in self._agents:
            try:
                found = agent.driver.changed_guests()
            except Exception:
                LOG.exception("Host %s: its events could not be read", agent.host)
            else:
                if found:
                    changed[agent.host] = dict(found)
        return changed
