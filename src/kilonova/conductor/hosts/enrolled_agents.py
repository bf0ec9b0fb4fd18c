# SPDX-License-Identifier: Apache-2.0
"""Which agent processes may speak for which hosts, as one control process knows it: in memory, and new within a second.

It is asked for every message, so it never reads then. What it says late does no harm: a report of hosts is held
against the database as well, in the transaction that stores it.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from kilonova.db import enrolment
from kilonova.db.database import Database
from kilonova.periodic import PeriodicPart, PeriodicThread

LOG = logging.getLogger(__name__)
_LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class _Known:
    """What was read up to ``version``. Replaced as a whole, so that it is read without a lock."""

    version: int = 0
    agents: frozenset[str] = frozenset()
    agent_of: Mapping[str, str] = field(default_factory=dict)


class EnrolledAgents(PeriodicPart):
    """Follows the enrolments of a database. ``on_change``: told after each change; ``on_revoked``: of whom first."""

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
        #: Revoked, and ``on_revoked`` has not succeeded yet.
        self._to_end: set[str] = set()
        thread = PeriodicThread(
            "enrolments",
            self.look,
            every_s,
            description="Read which agents were enrolled or revoked.",
            complaint="Enrolled agents were not looked at",
        )
        super().__init__("enrolments", [thread])

    def enrolled(self) -> Collection[str]:
        """Return the names of all agents that may speak."""
        return self._known.agents

    def may_speak(self, agent: str, host: str) -> bool:
        """Tell whether an agent is enrolled for a host."""
        return self._known.agent_of.get(host) == agent

    def agent_of(self, host: str) -> str | None:
        """Return which agent may speak for a host."""
        return self._known.agent_of.get(host)

    def hosts(self) -> AbstractSet[str]:
        """Return all hosts that an agent may speak for."""
        return self._known.agent_of.keys()

    def start(self) -> None:
        """Read everything, and go on to look what changes. Raises: Unavailable."""
        self.look()
        super().start()

    def look(self) -> None:
        """Read what has changed. Raises: Unavailable."""
        known = self._known
        with self._database.read() as connection:
            changes = enrolment.changes_since(connection, known.version)
        if changes is not None:
            # Nobody is heard any more before what he began ends.
            self._known = _after(known, changes)
            self._to_end = (self._to_end | changes.revoked) - self._known.agents
            self._tell(known.agents, self._known.agents)
            self._on_change()
        if self._to_end:
            self._on_revoked(frozenset(self._to_end))
            self._to_end.clear()

    def _tell(self, before: frozenset[str], now: frozenset[str]) -> None:
        if gone := before - now:
            LOG.warning("Revoked, and heard no more: agents %s", ", ".join(sorted(gone)))
        if came := now - before:
            LOG.info("%d agents are enrolled, %d of them new", len(now), len(came))


def _after(known: _Known, changes: enrolment.EnrolmentChanges) -> _Known:
    agent_of = {host: agent for host, agent in known.agent_of.items() if agent not in changes.hosts}
    for agent, hosts in changes.hosts.items():
        agent_of.update(dict.fromkeys(hosts, agent))
    return _Known(changes.version, (known.agents | changes.hosts.keys()) - changes.revoked, agent_of)
