# SPDX-License-Identifier: Apache-2.0
"""Routes to hosts over the broker: the current agent process of each host, and the enrolled agents (ADR 20)."""

from collections.abc import Collection
from typing import Protocol

from kilonova.messaging.codec import VERSION
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class Route:
    """The agent process that serves a host.

    ``agent``: name of the process at the broker; ``session``: its current session; ``version``: its message version.
    """

    agent: str
    session: str
    version: int = VERSION


class Routes(Protocol):
    """A control process's directory of the agents in other processes.

    Its methods are called under locks and for every message. They must not block, so they read only memory.
    """

    def of(self, host: str) -> Route | None:
        """Return the route to a host; None if no agent process serves it at present."""

    def is_alive(self, host: str) -> bool:
        """Return whether the lease of the agent process that serves a host is valid."""

    def enrolled(self) -> Collection[str]:
        """Return the names of all enrolled agents; messages of other agents are dropped."""

    def may_speak(self, agent: str, host: str) -> bool:
        """Return whether an agent is enrolled for a host."""
