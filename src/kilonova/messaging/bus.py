# SPDX-License-Identifier: Apache-2.0
"""The two ends of a message bus, whatever carries the messages (ADR 20).

Sending never waits: a message is noted, and carried while the sender goes on. It may be lost, doubled, late or out of
order, and both ends live with that: an agent carries each step out once, and one that does not reply is asked.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kilonova.messaging.lanes import AgentLane
from kilonova.messaging.messages import AgentMessage, ConductorMessage, HostsStarted, Orphans


@dataclass(frozen=True, slots=True)
class Work:
    """One message that an agent has accepted. ``run`` handles it and returns what waits behind it, if anything."""

    lane: AgentLane
    run: Callable[[], "Work | None"]


#: Takes a message in order, without waiting for anything, and returns the work to do for it now, if any.
Accept = Callable[[AgentMessage], Work | None]


class AgentBus(Protocol):
    """The end of a process with agents. Work runs on threads of the bus, in lanes that do not hold each other up."""

    def serve_agent(self, host: str, accept: Accept) -> None:
        """Have the messages for ``host`` go to ``accept`` from now on."""

    def tell(self, message: ConductorMessage, *, urgent: bool = False) -> None:
        """Hand a message to the conductor. Raises: Unavailable when there is none.

        ``urgent``: ahead of all that is not; for what comes of interrupts and deletes.
        """

    def announce(self, message: HostsStarted) -> Orphans:
        """Tell the conductor of agents that start, and wait for its answer. Raises: Unavailable when none comes."""


class ConductorBus(Protocol):
    """The end of a control process, which also runs the conductor's own work on threads of its lanes."""

    @property
    def waiting(self) -> Mapping[str, int]:
        """How much work waits for a thread, by the name of its queue."""

    def serve_conductor(
        self, handler: Callable[[ConductorMessage], None], on_agents_started: Callable[[HostsStarted], Orphans]
    ) -> None:
        """Have messages of agents go to ``handler``, and announcements to ``on_agents_started``."""

    def cast(self, host: str, message: AgentMessage) -> None:
        """Hand a message to the agent of ``host``. Raises: Unavailable when this process knows of none."""

    def run_in_conductor(self, work: Callable[[], None]) -> None:
        """Run the conductor's own work in the background."""

    def run_urgently(self, work: Callable[[], None]) -> None:
        """Run the conductor's own work that must not wait behind ordinary work: interrupts and deletes."""

    def run_blocking(self, work: Callable[[], None]) -> None:
        """Run the conductor's own work where it may wait for seconds and hold nothing else up."""
