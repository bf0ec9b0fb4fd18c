# SPDX-License-Identifier: Apache-2.0
"""Sessions of an agent process: each begins with a report of the process's hosts and guests.

A session ends when the process has been declared dead; the process then begins a new session (ADR 20).
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
#: The shortest timeout for the answer to a heartbeat, in seconds.
_SHORTEST_S = 1.0


def start_agents(agents: Sequence[Agent], bus: AgentBus, session: str = "") -> None:
    """Register hypervisors and their guests, remove guests named by removal records, then accept messages.

    ``session``: the session of the agents' process.
    """
    for _ in _start_in_groups(agents, bus, session):
        pass


class Sessions:
    """The successive sessions of an agent process, each with a lease granted by a control process.

    ``lease``: tells the agents whether they may act. A lease begins at the moment when a heartbeat was sent, so it
    expires before any control process declares the session dead.
    ``interval_s``: seconds between two heartbeats; with a short lease, heartbeats are sent more often.
    ``on_begun``: called when a session has begun.
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
        #: Whether the expiry of the lease has been logged.
        self._has_lapsed = False

    @property
    def session(self) -> str:
        """The present session, or "" if there is none."""
        return self._session

    @property
    def pause_s(self) -> float:
        """Seconds to wait before the next :meth:`turn`."""
        return min(self._interval_s, self._lease.renewal_s)

    def turn(self) -> None:
        """Send a heartbeat; begin a new session if there is none, or if the control processes declared it dead.

        A lease that has expired in this process may still be valid for the control processes, which measure it from a
        later moment. In that case the session continues.
        Raises: Unavailable if no control process answers or a hypervisor is unreachable.
        """
        if self._session:
            if not self._lease.is_held and not self._has_lapsed:
                self._has_lapsed = True
                LOG.warning(
                    "No heartbeat was acknowledged within the lease (%s); orders are dropped until one is acknowledged",
                    self._lease.duration,
                )
            if self._is_counted():
                self._go_on()
                return
            LOG.warning("This process was declared dead, or another process owns its hosts; beginning a new session")
        self._begin()

    def _go_on(self) -> None:
        if self._has_lapsed:
            self._has_lapsed = False
            LOG.info("Session %s continues", self._session)
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
        LOG.info("Session %s begins with %d hosts", session, len(self._agents))
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
        raise Unavailable("The answer to a heartbeat belongs to another heartbeat.")


def _start_in_groups(
    agents: Sequence[Agent], bus: AgentBus, session: str, now: Callable[[], float] = float
) -> Iterator[tuple[float, HostsRegistered]]:
    """Register agents in batches. For each batch, yield the time ``now()`` before its registration, and the answer."""
    for agent in agents:
        agent.begin_session()
    for start in range(0, len(agents), _ANNOUNCED_TOGETHER):
        group = {agent.host: agent for agent in agents[start : start + _ANNOUNCED_TOGETHER]}
        since = now()
        registered = bus.ask(_report(group, session))
        if isinstance(registered, HeartbeatAnswer):
            raise Unavailable("The session ended before all hosts were registered; a new session begins.")
        if not isinstance(registered, HostsRegistered):
            raise Unavailable("The answer to the report of the hosts has an unexpected type.")
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
    """Report hypervisors that changed during the session, and remove guests named by removal records.

    Raises: Unavailable if no control process answers.
    """
    for start in range(0, len(agents), _ANNOUNCED_TOGETHER):
        group = {agent.host: agent for agent in agents[start : start + _ANNOUNCED_TOGETHER]}
        answer = bus.ask(_report(group, session))
        if isinstance(answer, HostsRegistered):
            for host, removals in answer.removals.items():
                group[host].remove(removals)


def _report(group: Mapping[str, Agent], session: str) -> HostsStarted:
    """Return the report of a batch of hosts and their guests. Raises: Unavailable if a hypervisor is unreachable."""
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
