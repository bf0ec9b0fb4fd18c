# SPDX-License-Identifier: Apache-2.0
"""Agents whose release is too old, so that this process refuses their registration."""

import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from kilonova.clock import utc_now
from kilonova.errors import AgentTooOld
from kilonova.messaging.bus import Sender
from kilonova.messaging.codec import OLDEST
from kilonova.records import dataclass

#: A refused agent registers again every few seconds. An agent that has not done so for this time is not listed.
_KEPT = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class RefusedAgent:
    """A refused agent and its hosts. ``refused_at``: time of the last refusal, by the clock of this machine."""

    agent: str
    release: str | None
    message_version: int
    hosts: tuple[str, ...]
    reason: str
    refused_at: datetime


class RefusedAgents:
    """The refused agents of one control process. There are at most as many as enrolled agents."""

    def __init__(self, clock: Callable[[], datetime] = utc_now) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._found: dict[str, RefusedAgent] = {}

    def require_recent(self, sender: Sender, release: str, hosts: Sequence[str]) -> None:
        """Check the registration of an agent with these hosts. Raises: AgentTooOld.

        Agents that are two or more releases old are refused, because such combinations are not tested.
        """
        if sender.version >= OLDEST:
            with self._lock:
                self._found.pop(sender.agent, None)
            return
        reason = (
            f"Agent {sender.agent} runs release {release or 'unknown'}, whose message version {sender.version} is too "
            f"old: this release requires message version {OLDEST} or later. The agent has to be upgraded."
        )
        served = tuple(sorted(set(hosts)))
        refused = RefusedAgent(sender.agent, release or None, sender.version, served, reason, self._clock())
        with self._lock:
            self._found[sender.agent] = refused
        raise AgentTooOld(reason)

    def list_all(self) -> tuple[RefusedAgent, ...]:
        """Return the agents that were refused recently, by name."""
        since = self._clock() - _KEPT
        with self._lock:
            self._found = {name: each for name, each in self._found.items() if each.refused_at > since}
            return tuple(self._found[name] for name in sorted(self._found))

    def by_host(self) -> dict[str, RefusedAgent]:
        """Return host → the refused agent that serves it."""
        return {host: each for each in self.list_all() for host in each.hosts}
