# SPDX-License-Identifier: Apache-2.0
"""Protocols of the two ends of a message bus, the agents' end and the conductor's end (ADR 20).

Sending is asynchronous: a message is queued, and the sender continues. Messages may be lost, duplicated, late or out of
order, and both ends tolerate that: an agent carries out each step once, and the conductor queries an agent whose reply
is late.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Protocol

from kilonova.errors import Forbidden
from kilonova.messaging.codec import VERSION
from kilonova.messaging.messages import AgentMessage, Answer, ConductorMessage, Question
from kilonova.messaging.thread_pools import AgentPool
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """The handling of a message that an agent has accepted, in the thread pool ``pool``.

    ``run``: handles the message; returns the queued work that may start afterwards, or None if there is none.
    """

    pool: AgentPool
    run: Callable[[], "Iterable[Work] | None"]


@dataclass(frozen=True, slots=True)
class Sender:
    """The sender of a question, authenticated by the bus.

    ``agent``: name of the sending agent process at the broker; "" if the question comes from this process.
    ``version``: message version of the sender.
    """

    agent: str = ""
    version: int = VERSION


class DeclinedError(Forbidden):
    """Raised by the conductor to refuse a question. ``answer``: the reply that is sent to the agent nevertheless."""

    def __init__(self, message: str, answer: Answer) -> None:
        super().__init__(message)
        self.answer = answer


#: Function that answers a question of a process with agents. It returns a Future if the answer depends on a commit, so
#: that no thread waits for the commit. Raises: DeclinedError; any other exception is logged, and no answer is sent.
Answerer = Callable[[Question, Sender], Answer | Future[Answer]]
#: Function that accepts a message for an agent. It is called for each message in order of arrival, and must not block.
#: It returns the work to start now, or None if the message is queued or needs no work.
Accept = Callable[[AgentMessage], Work | None]


class AgentBus(Protocol):
    """The end of the bus in a process with agents. The bus handles messages in its own independent thread pools."""

    def serve_agent(self, host: str, accept: Accept) -> None:
        """Deliver all messages for ``host`` to ``accept`` from now on."""

    def tell(self, message: ConductorMessage, *, urgent: bool = False) -> None:
        """Send a message to the conductor. Raises: Unavailable if this process has no conductor.

        ``urgent``: whether the message overtakes messages that are not urgent; True for results of interrupts and
        deletes.
        """

    def begin_session(self, session: str) -> None:
        """Accept only messages for this session from now on.

        An order for another session is answered with the status UNKNOWN of its step, so that the conductor sends the
        order again.
        """

    def ask(self, question: Question, within_s: float | None = None) -> Answer:
        """Send a question to the conductor and wait for the answer. Raises: Unavailable after a timeout.

        ``within_s``: the timeout; None is the response timeout of the bus.
        """


class ConductorBus(Protocol):
    """The end of the bus in a control process. Its thread pools also run the conductor's own work."""

    @property
    def waiting(self) -> Mapping[str, int]:
        """Lengths of the queues of this bus: name of the queue → number of queued tasks or messages."""

    @property
    def hears_agents(self) -> bool:
        """Whether this process currently receives messages of agents."""

    def hears(self, host: str) -> bool:
        """Return whether the agent of ``host`` is considered alive and this process currently receives its messages."""

    def serve_conductor(self, handler: Callable[[ConductorMessage], None], answer: Answerer) -> None:
        """Deliver messages of agents to ``handler`` and their questions to ``answer``."""

    def cast(self, host: str, message: AgentMessage) -> None:
        """Send a message to the agent of ``host``.

        Raises: Unavailable if this process knows no agent of the host; AgentTooOld if the agent's release does not have
        the message.
        """

    def run_in_conductor(self, work: Callable[[], None]) -> None:
        """Run work of the conductor in the background."""

    def run_urgently(self, work: Callable[[], None]) -> None:
        """Run work of the conductor that must not wait behind ordinary work: interrupts and deletes."""

    def run_blocking(self, work: Callable[[], None]) -> None:
        """Run work of the conductor in the pool for work that may block for seconds."""


class ControlBus(AgentBus, ConductorBus, Protocol):
    """Both ends of the bus in one object, for a control process that also runs agents (of simulated hosts)."""

    def close(self) -> None:
        """Accept no more work, and wait for the running work."""


class RemoteBus(ControlBus, Protocol):
    """Both ends of the bus, for a control process that also exchanges messages with agents in other processes."""

    def start(self) -> None:
        """Start receiving messages of agents. Call :meth:`serve_conductor` first."""

    def agents_changed(self) -> None:
        """Reload the list of enrolled agents now, instead of at the next periodic check."""
