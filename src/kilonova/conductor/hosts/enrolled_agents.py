# SPDX-License-Identifier: Apache-2.0
"""In-memory list of the enrolled agent processes and their hosts, refreshed every second.

The list is used for every message, so a lookup never reads the database. A stale entry is harmless: the transaction
that registers hosts checks the enrolment in the database.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import field

from kilonova.db import enrolment
from kilonova.db.database import Database
from kilonova.periodic import PeriodicPart, PeriodicThread
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
_LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class _Known:
    """Snapshot of the enrolments. ``version``: version number of the newest change. ``agent_of``: host → agent.

    The snapshot is replaced as a whole, so that threads can read it without a lock.
    """

    version: int = 0
    agents: frozenset[str] = frozenset()
    agent_of: Mapping[str, str] = field(default_factory=dict)


class EnrolledAgents(PeriodicPart):
    """The list of enrolled agents, with the thread that refreshes it.

    ``on_change``: called after each change. ``on_revoked``: called with revoked agents.
    """

    def __init__(
        self,
        database: Database,
        on_change: Callable[[], object] = lambda: None,
        on_revoked: Callable[[Collection[str]], object] = lambda _: None,
        *,
        every_s: float = _LOOK_EVERY_S,
    ) -> None:
        self._database = database
        self._on_change = on_change
        self._on_revoked = on_revoked
        self._known = _Known()
        #: Revoked agents for which ``on_revoked`` has not yet returned without an error.
        self._to_end: set[str] = set()
        thread = PeriodicThread(
            "enrolments",
            self.look,
            every_s,
            description="Read which agents were enrolled or revoked.",
            complaint="The enrolments of agents were not read",
        )
        super().__init__("enrolments", [thread])

    def enrolled(self) -> Collection[str]:
        """Return the names of all enrolled agents."""
        return self._known.agents

    def may_speak(self, agent: str, host: str) -> bool:
        """Return True if an agent is enrolled for a host."""
        return self._known.agent_of.get(host) == agent

    def agent_of(self, host: str) -> str | None:
        """Return the name of the agent that is enrolled for a host."""
        return self._known.agent_of.get(host)

    def hosts(self) -> AbstractSet[str]:
        """Return all hosts that have an enrolled agent."""
        return self._known.agent_of.keys()

    def start(self) -> None:
        """Read all enrolments, and start polling for changes. Raises: Unavailable."""
        self.look()
        super().start()

    def look(self) -> None:
        """Read the changes of enrolments since the last read. Raises: Unavailable."""
        known = self._known
        with self._database.read() as connection:
            changes = enrolment.changes_since(connection, known.version)
        if changes is not None:
            # The list is updated before the sessions of revoked agents are ended, so that their messages are refused.
            self._known = _after(known, changes)
            self._to_end = (self._to_end | changes.revoked) - self._known.agents
            self._tell(known.agents, self._known.agents)
            self._on_change()
        if self._to_end:
            self._on_revoked(frozenset(self._to_end))
            self._to_end.clear()

    def _tell(self, before: frozenset[str], now: frozenset[str]) -> None:
        if gone := before - now:
            LOG.warning("Messages of revoked agents are refused: %s", ", ".join(sorted(gone)))
        if came := now - before:
            LOG.info("%d agents are enrolled, %d of them new", len(now), len(came))


def _after(known: _Known, changes: enrolment.EnrolmentChanges) -> _Known:
    agent_of = {host: agent for host, agent in known.agent_of.items() if agent not in changes.hosts}
    for agent, hosts in changes.hosts.items():
        agent_of.update(dict.fromkeys(hosts, agent))
    return _Known(changes.version, (known.agents | changes.hosts.keys()) - changes.revoked, agent_of)
