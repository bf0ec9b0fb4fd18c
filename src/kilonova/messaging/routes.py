# SPDX-License-Identifier: Apache-2.0
"""Which hosts are reached over the broker, through which agent process, and who may speak for them (ADR 20)."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from kilonova.messaging.codec import VERSION


@dataclass(frozen=True, slots=True)
class Route:
    """The agent process that serves a host. ``agent``: its name at the broker; ``session``: its present life.

    ``version``: of the messages that it knows.
    """

    agent: str
    session: str
    version: int = VERSION


class Routes(Protocol):
    """What a control process knows of the agents beyond it.

    It is asked under locks and for every message: no call may wait for anything, so all of it is answered from memory.
    """

    def of(self, host: str) -> Route | None:
        """Return how a host is reached; None when no agent process serves it at present."""

    def is_alive(self, host: str) -> bool:
        """Tell whether the agent process that serves a host has its lease."""

    def enrolled(self) -> Collection[str]:
        """Return the names of all agents that may speak. Those that are no longer among them are heard no more."""

    def may_speak(self, agent: str, host: str) -> bool:
        """Tell whether an agent was enrolled for a host."""
