# SPDX-License-Identifier: Apache-2.0
"""Which agent process has which host, as the database says: kept in memory, and looked at all the time (ADR 20)."""

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
#: How soon a process notices agents that another one has registered.
_LOOK_EVERY_S = 1.0
#: How many seconds after it was seen first the hosts of a session are read: it reports them in several messages, and
#: where many agent processes start at once the last of them may come minutes after the first.
_READ_AFTER_S = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class AgentDirectory(PeriodicPart):
    """Implements ``Routes``. What is asked of it is answered from memory, which :meth:`refresh` keeps up to date.

    ``lease``: how long a host stays where it was after the end of its session, or longer, for as long as it counts as
    up. Its agent may be about to begin the next one; then it says that what was sent is not for that, and it is sent
    anew. ``on_moved``: told of hosts that have come with another session, or are given up with theirs; ``on_enrolled``
    when other agents may speak.
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
        #: The sessions that have their lease.
        self._alive: frozenset[str] = frozenset()
        #: Session → when it was seen first, and how often since then its hosts should have been read.
        self._seen: Mapping[str, tuple[float, int]] = {}
        thread = PeriodicThread(
            "routes",
            self.refresh,
            _LOOK_EVERY_S,
            description="Read which agent process has which host.",
            complaint="Where agents are was not looked at",
        )
        super().__init__("agent directory", [*self._enrolled.periodic_threads, thread])

    def start(self) -> None:
        """Read everything, and go on to look what changes. Raises: Unavailable."""
        self.look()
        super().start()

    def look(self) -> None:
        """Read what has changed, of enrolments too. Raises: Unavailable."""
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
        """Read what has changed since the last time. Raises: Unavailable; then everything stays as it was.

        ``registered``: a session that has just reported hosts.
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
        """Return when a session was seen first, and how often its hosts should have been read by now."""
        since, _ = self._seen.get(session, (at, 0))
        return since, bisect_right(_READ_AFTER_S, at - since)

    def has_all(self) -> bool:
        """Tell whether every host that an agent is enrolled for is known to be somewhere."""
        return self._routes.keys() >= self._enrolled.hosts()

    def look_up(self, host: str) -> bool:
        """Ask the database for a host that nobody seems to have. Tells whether it can be reached after all."""
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
        """Note where hosts are, and forget those of sessions that are over; return those that moved or are gone."""
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
        """Let nobody count agents as alive that were revoked. Raises: Unavailable."""
        ended = self._database.write(lambda tx: agent_sessions.end_of(tx, agents))
        if ended:
            LOG.warning("The sessions of agents that were revoked end: %s", ", ".join(sorted(agents)))


def _route(session: Session) -> Route:
    return Route(session.agent, session.uuid, session.message_version or NEEDS)
