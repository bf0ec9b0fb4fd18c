# SPDX-License-Identifier: Apache-2.0
"""Protocols of the two ends of a message bus, for every transport (ADR 20).

Sending is asynchronous: a message is queued, and the sender continues. Messages may be lost, duplicated, late or out of
order, and both ends tolerate that: an agent carries out each step once, and the conductor polls agents that are late.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from kilonova.errors import Forbidden
from kilonova.messaging.codec import VERSION
from kilonova.messaging.messages import AgentMessage, Answer, ConductorMessage, Question
from kilonova.messaging.thread_pools import AgentPool


@dataclass(frozen=True, slots=True)
class Work:
    """A message that an agent has accepted. ``run`` handles it and returns queued work that may start now, or None."""

    pool: AgentPool
    run: Callable[[], "Iterable[Work] | None"]


@dataclass(frozen=True, slots=True)
class Sender:
    """The sender of a question, authenticated by the bus. ``agent``: its name at the broker, "" inside this process.

    ``version``: message version of the sender.
    """

    agent: str = ""
    version: int = VERSION


class DeclinedError(Forbidden):
    """A refused question. ``answer``: the reply to the sender, with the consequences of the refusal."""

    def __init__(self, message: str, answer: Answer) -> None:
        super().__init__(message)
        self.answer = answer


#: Answers a question of a process with agents. Returns a Future if the answer depends on a commit, so that no thread
#: waits for it. Raises: DeclinedError; any other exception is logged, and no answer is sent.
Answerer = Callable[[Question, Sender], Answer | Future[Answer]]
#: Accepts a message in order, without blocking, and returns the work to start for it now, or None.
Accept = Callable[[AgentMessage], Work | None]


class AgentBus(Protocol):
    """The end of a process with agents. Work runs on threads of the bus, in independent thread pools."""

    def serve_agent(self, host: str, accept: Accept) -> None:
        """Deliver all further messages for ``host`` to ``accept``."""

    def tell(self, message: ConductorMessage, *, urgent: bool = False) -> None:
        """Send a message to the conductor. Raises: Unavailable if this process has no conductor.

        ``urgent``: overtakes messages that are not urgent; for the results of interrupts and deletes.
        """

    def begin_session(self, session: str) -> None:
        """Accept only messages for this session from now on.

        An order for another session is answered with the status UNKNOWN of its step, so that the conductor resends it.
        """

    def ask(self, question: Question, within_s: float | None = None) -> Answer:
        """Send a question to the conductor and wait for the answer. Raises: Unavailable after a timeout.

        ``within_s``: the timeout; None is the response timeout of the bus.
        """


class ConductorBus(Protocol):
    """The end of a control process, which also runs the conductor's own work on threads of its pools."""

    @property
    def waiting(self) -> Mapping[str, int]:
        """Number of pieces of work that wait for a thread, by the name of their queue."""

    @property
    def hears_agents(self) -> bool:
        """Whether messages of agents arrive at this process at present."""

    def hears(self, host: str) -> bool:
        """Return whether the agent of ``host`` counts as alive and its messages arrive at this process at present."""

    def serve_conductor(self, handler: Callable[[ConductorMessage], None], answer: Answerer) -> None:
        """Deliver messages of agents to ``handler`` and their questions to ``answer``."""

    def cast(self, host: str, message: AgentMessage) -> None:
        """Send a message to the agent of ``host``.

        Raises: Unavailable if this process knows no agent of the host; AgentTooOld if its release lacks the message.
        """

    def run_in_conductor(self, work: Callable[[], None]) -> None:
        """Run work of the conductor in the background."""

    def run_urgently(self, work: Callable[[], None]) -> None:
        """Run work of the conductor that must not wait behind ordinary work: interrupts and deletes."""

    def run_blocking(self, work: Callable[[], None]) -> None:
        """Run work of the conductor in the pool for work that may block for seconds."""


class ControlBus(AgentBus, ConductorBus, Protocol):
    """Both ends, for a control process with hosts of its own."""

    def close(self) -> None:
        """Accept no more work, and wait for the running work."""


class RemoteBus(ControlBus, Protocol):
    """Both ends, for a control process that also reaches agents in other processes."""

    def start(self) -> None:
        """Start to receive messages of agents. Call it after :meth:`serve_conductor`."""

    def agents_changed(self) -> None:
        """Reload the enrolled agents now, without waiting for the next interval."""
