# SPDX-License-Identifier: Apache-2.0
"""One life of a process with agents: it begins with a report of hosts and guests, and others count it as alive or not.

Whoever may have been counted as dead meanwhile begins a new session (ADR 20).
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import kilonova
from kilonova.compute.agent import Agent, guests_of
from kilonova.errors import HypervisorAway, Unavailable
from kilonova.identifiers import new_uuid
from kilonova.lease import Lease
from kilonova.messaging.bus import AgentBus
from kilonova.messaging.messages import Heartbeat, HeartbeatAnswer, HostsRegistered, HostsStarted
from kilonova.model.host import NODE_TRAITS, NodeReport

LOG = logging.getLogger(__name__)
_ANNOUNCED_TOGETHER = 200
#: The least that the answer to a heartbeat may take.
_SHORTEST_S = 1.0


def start_agents(agents: Sequence[Agent], bus: AgentBus, session: str = "") -> None:
    """Announce hypervisors and their guests, have guests go that a record says have to, then take messages.

    ``session``: of the process that the agents are in.
    """
    for _ in _start_in_groups(agents, bus, session):
        pass


class Sessions:
    """The sessions of a process with agents, one after the other, each with a lease that others gave it.

    ``lease``: whether the agents may act. It counts from when a sign of life was sent, so it lapses before anybody
    counts the session as dead. ``interval_s``: seconds between two heartbeats, unless the lease wants more of them.
    ``on_begun``: told when a session has begun.
    """

    def __init__(
        self,
        agents: Sequence[Agent],
        bus: AgentBus,
        lease: Lease,
        interval_s: float,
        *,
        new_session: Callable[[], str] = new_uuid,
        on_begun: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_begun = on_begun
        self._agents = tuple(agents)
        self._bus = bus
        self._lease = lease
        self._interval_s = interval_s
        self._new_session = new_session
        self._session = ""
        self._heartbeats = 0
        #: Whether it was said that the lease has lapsed.
        self._has_lapsed = False

    @property
    def session(self) -> str:
        """The present session, "" while there is none."""
        return self._session

    @property
    def pause_s(self) -> float:
        """How long to wait before the next :meth:`turn`."""
        return min(self._interval_s, self._lease.renewal_s)

    def turn(self) -> None:
        """Give a sign of life, or begin a new session where others count this one as dead.

        A lease that has lapsed here may not have there: it is counted from later. Then the session goes on.
        Raises: Unavailable when nobody answers, or a hypervisor is away.
        """
        if self._session:
            if not self._lease.is_held and not self._has_lapsed:
                self._has_lapsed = True
                LOG.warning(
                    "No sign of life was answered for longer than the lease of %s; nothing is done until one is",
                    self._lease.duration,
                )
            if self._is_counted():
                self._go_on()
                return
            LOG.warning("This process is counted as dead, or another one has its hosts; they report their guests again")
        self._begin()

    def _go_on(self) -> None:
        if self._has_lapsed:
            self._has_lapsed = False
            LOG.info("Session %s goes on", self._session)
            for agent in self._agents:
                agent.tell_late_replies()

    def _begin(self) -> None:
        self._lease.lapse()
        self._session, self._heartbeats, self._has_lapsed = "", 0, False
        session = self._new_session()
        self._bus.begin_session(session)
        for since, answer in _start_in_groups(self._agents, self._bus, session, now=self._lease.now):
            self._lease.renew(since, timedelta(seconds=answer.lease_s))
        self._session = session
        LOG.info("Session %s begins: %d hosts are reported", session, len(self._agents))
        self._on_begun()

    def _is_counted(self) -> bool:
        self._heartbeats += 1
        asked = Heartbeat(session=self._session, number=self._heartbeats)
        since = self._lease.now()
        answer = self._bus.ask(asked, max(_SHORTEST_S, self._lease.renewal_s))
        if answer == HeartbeatAnswer(asked.session, asked.number, counts=True):
            self._lease.renew(since)
            return True
        if answer == HeartbeatAnswer(asked.session, asked.number, counts=False):
            return False
        raise Unavailable("What was answered to a heartbeat was not meant for it.")


def _start_in_groups(
    agents: Sequence[Agent], bus: AgentBus, session: str, now: Callable[[], float] = float
) -> Iterator[tuple[float, HostsRegistered]]:
    """Start some agents after the other. Yields when each group was announced, by ``now``, and what was answered."""
    for agent in agents:
        agent.begin_session()
    for start in range(0, len(agents), _ANNOUNCED_TOGETHER):
        group = {agent.host: agent for agent in agents[start : start + _ANNOUNCED_TOGETHER]}
        since = now()
        registered = bus.ask(_report(group, session))
        if isinstance(registered, HeartbeatAnswer):
            raise Unavailable("The session was over before all hosts were reported; they are reported in another one.")
        if not isinstance(registered, HostsRegistered):
            raise Unavailable("What was answered to the report of the hosts was not meant for it.")
        home = {host: group[host].roll_back(due) for host, due in registered.homecomings.items()}
        for host, removals in registered.removals.items():
            group[host].remove(removals)
        yield since, registered
        for agent in group.values():
            bus.serve_agent(agent.host, agent.accept)
            agent.tell_late_replies()
            agent.tell_home(home.get(agent.host, ()))
            if agent.host in registered.removals:
                agent.tell_removed(registered.removals[agent.host])


def report_again(agents: Sequence[Agent], bus: AgentBus, session: str) -> None:
    """Report hypervisors that have changed within the present session, and have guests go that a record says have to.

    Raises: Unavailable when nobody answers.
    """
    for start in range(0, len(agents), _ANNOUNCED_TOGETHER):
        group = {agent.host: agent for agent in agents[start : start + _ANNOUNCED_TOGETHER]}
        answer = bus.ask(_report(group, session))
        if isinstance(answer, HostsRegistered):
            for host, removals in answer.removals.items():
                group[host].remove(removals)


def _report(group: Mapping[str, Agent], session: str) -> HostsStarted:
    """Raises: Unavailable when a hypervisor is away."""
    reports: list[NodeReport] = []
    try:
        for agent in group.values():
            said = agent.report()
            reports.append(replace(said, traits=(*NODE_TRAITS, *said.traits)))
        found = guests_of(tuple(group.values()))
    except HypervisorAway as error:
        raise Unavailable(f"Host {', '.join(group)}: {error.message}") from error
    machine = os.uname().nodename
    return HostsStarted(tuple(reports), found.guests, session, kilonova.__version__, found.marked, machine)
