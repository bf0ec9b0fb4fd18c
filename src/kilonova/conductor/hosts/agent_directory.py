# SPDX-License-Identifier: Apache-2.0
"""In-memory directory of hosts and their agent processes, refreshed from the database every second (ADR 20)."""

import logging
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta

from kilonova.conductor.hosts.enrolled_agents import EnrolledAgents
from kilonova.db import agent_sessions
from kilonova.db.agent_sessions import Session
from kilonova.db.database import Database
from kilonova.messaging.codec import NEEDS
from kilonova.messaging.routes import Route
from kilonova.periodic import PeriodicPart, PeriodicThread

LOG = logging.getLogger(__name__)
#: Interval in seconds at which this process reads the agents that other control processes have registered.
_LOOK_EVERY_S = 1.0
#: Times at which the hosts of a session are read, in seconds after the session was first seen. A session reports its
#: hosts in several messages. If many agent processes start at once, the last one may come minutes after the first.
_READ_AFTER_S = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class AgentDirectory(PeriodicPart):
    """In-memory implementation of ``Routes``; :meth:`refresh` updates it.

    ``lease``: how long the route of a host is kept after the lease of its session has expired; longer if the host is
    still considered up. Meanwhile messages to the host are sent to the expired session. The next session of the agent
    rejects them, so that they are sent again.
    ``on_moved``: called with the hosts that have a new session, or whose route was removed. ``on_enrolled``: called
    when agents were enrolled or revoked.
    """

    def __init__(
        self,
        database: Database,
        lease: timedelta,
        clock: Callable[[], float] = time.monotonic,
        *,
        on_moved: Callable[[Collection[str]], object] = lambda _: None,
        on_enrolled: Callable[[], object] = lambda: None,
    ) -> None:
        self._on_moved = on_moved
        self._database = database
        self._lease = lease
        self._clock = clock
        self._enrolled = EnrolledAgents(database, on_enrolled, self._end_sessions)
        self._lock = threading.Lock()
        self._routes: dict[str, Route] = {}
        #: The sessions whose lease has not expired.
        self._alive: frozenset[str] = frozenset()
        #: Session → time at which this process first saw the session, and how many of the reads at ``_READ_AFTER_S``
        #: have been due since.
        self._seen: Mapping[str, tuple[float, int]] = {}
        thread = PeriodicThread(
            "routes",
            self.refresh,
            _LOOK_EVERY_S,
            description="Read which agent process has which host.",
            complaint="The directory of agents was not refreshed",
        )
        super().__init__("agent directory", [*self._enrolled.periodic_threads, thread])

    def start(self) -> None:
        """Read all enrolments and sessions, and start the periodic refresh. Raises: Unavailable."""
        self.look()
        super().start()

    def look(self) -> None:
        """Read the changes of enrolments and sessions since the last read. Raises: Unavailable."""
        self._enrolled.look()
        self.refresh()

    def of(self, host: str) -> Route | None:
        return self._routes.get(host)

    def is_alive(self, host: str) -> bool:
        route = self._routes.get(host)
        return route is not None and route.session in self._alive

    def enrolled(self) -> Collection[str]:
        return self._enrolled.enrolled()

    def may_speak(self, agent: str, host: str) -> bool:
        return self._enrolled.may_speak(agent, host)

    def refresh(self, registered: str = "") -> None:
        """Read the changes of sessions since the last refresh. Raises: Unavailable; the directory is then unchanged.

        ``registered``: a session that has just reported hosts, so that its hosts are read now.
        """
        with self._lock:
            at = self._clock()
            now = self._database.clock.now()
            with self._database.read(patient=True) as connection:
                sessions = agent_sessions.not_given_up(connection, now - self._lease)
                seen = {each.uuid: self._reads(each.uuid, at) for each in sessions}
                hosts = {
                    each: agent_sessions.hosts(connection, each.uuid)
                    for each in sessions
                    if each.uuid == registered or self._seen.get(each.uuid) != seen[each.uuid]
                }
            ended, self._seen = self._seen.keys() - seen.keys(), seen
            self._alive = frozenset(each.uuid for each, until in sessions.items() if until > now)
            moved = self._take(hosts, ended)
        if moved:
            self._on_moved(moved)

    def _reads(self, session: str, at: float) -> tuple[float, int]:
        """Return when a session was first seen, and how many of the reads at ``_READ_AFTER_S`` are due by now."""
        since, _ = self._seen.get(session, (at, 0))
        return since, bisect_right(_READ_AFTER_S, at - since)

    def has_all(self) -> bool:
        """Return True if all hosts with an enrolled agent have a route."""
        return self._routes.keys() >= self._enrolled.hosts()

    def look_up(self, host: str) -> bool:
        """Search the database for the session of a host without a route; return True if the host has a route now."""
        if host in self._routes:
            return False
        with self._database.read(patient=True) as connection:
            found = agent_sessions.of_host(connection, host, self._database.clock.now())
        if found is None:
            return False
        with self._lock:
            self._routes[host] = _route(found)
        return True

    def _take(self, hosts: Mapping[Session, Collection[str]], ended: Collection[str]) -> frozenset[str]:
        """Update the routes; return the hosts whose route has changed or was removed."""
        moved = {host for host, route in self._routes.items() if route.session in ended} if ended else set()
        for host in moved:
            del self._routes[host]
        for session, names in hosts.items():
            route = _route(session)
            for host in names:
                if self._routes.get(host) != route:
                    self._routes[host] = route
                    moved.add(host)
        return frozenset(moved)

    def _end_sessions(self, agents: Collection[str]) -> None:
        """End the sessions of revoked agents, so that no control process considers them alive. Raises: Unavailable."""
        ended = self._database.write(lambda tx: agent_sessions.end_of(tx, agents))
        if ended:
            LOG.warning("Ended the sessions of revoked agents: %s", ", ".join(sorted(agents)))


def _route(session: Session) -> Route:
    return Route(session.agent, session.uuid, session.message_version or NEEDS)
