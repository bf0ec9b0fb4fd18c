# SPDX-License-Identifier: Apache-2.0
"""The two ends of a message bus, whatever carries the messages (ADR 20).

Sending never waits: a message is noted, and carried while the sender goes on. It may be lost, doubled, late or out of
order, and both ends live with that: an agent carries each step out once, and one that does not reply is asked.
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
    """One message that an agent has accepted. ``run`` handles it and returns what waits behind it, if anything."""

    pool: AgentPool
    run: Callable[[], "Iterable[Work] | None"]


@dataclass(frozen=True, slots=True)
class Sender:
    """Who asks, as the bus vouches for it. ``agent``: its name at the broker, "" inside this process.

    ``version``: of the messages that it writes.
    """

    agent: str = ""
    version: int = VERSION


class DeclinedError(Forbidden):
    """A question is refused, and ``answer`` tells whoever asked what follows for it."""

    def __init__(self, message: str, answer: Answer) -> None:
        super().__init__(message)
        self.answer = answer


#: Answers a question of a process with agents, now, or as soon as what it says is durable: no thread waits for that.
#: Raises: DeclinedError; whatever else it raises is logged, and nobody answers.
Answerer = Callable[[Question, Sender], Answer | Future[Answer]]
#: Takes a message in order, without waiting for anything, and returns the work to do for it now, if any.
Accept = Callable[[AgentMessage], Work | None]


class AgentBus(Protocol):
    """The end of a process with agents. Work runs on threads of the bus, in pools that do not hold each other up."""

    def serve_agent(self, host: str, accept: Accept) -> None:
        """Have the messages for ``host`` go to ``accept`` from now on."""

    def tell(self, message: ConductorMessage, *, urgent: bool = False) -> None:
        """Hand a message to the conductor. Raises: Unavailable when there is none.

        ``urgent``: ahead of all that is not; for what comes of interrupts and deletes.
        """

    def begin_session(self, session: str) -> None:
        """Take only messages for this session from now on.

        One for another session is answered as a step that is unknown, so that it is sent anew.
        """

    def ask(self, question: Question, within_s: float | None = None) -> Answer:
        """Ask the conductor, and wait for its answer. Raises: Unavailable when none comes in time.

        ``within_s``: how long that is; None: as long as anything may take.
        """


class ConductorBus(Protocol):
    """The end of a control process, which also runs the conductor's own work on threads of its pools."""

    @property
    def waiting(self) -> Mapping[str, int]:
        """How much work waits for a thread, by the name of its queue."""

    @property
    def hears_agents(self) -> bool:
        """Whether what agents say arrives here at present."""

    def hears(self, host: str) -> bool:
        """Whether the agent of ``host`` counts as alive, and what it says arrives here at present."""

    def serve_conductor(self, handler: Callable[[ConductorMessage], None], answer: Answerer) -> None:
        """Have messages of agents go to ``handler``, and what they ask to ``answer``."""

    def cast(self, host: str, message: AgentMessage) -> None:
        """Hand a message to the agent of ``host``.

        Raises: Unavailable when this process knows of none, AgentTooOld when it would not understand the message.
        """

    def run_in_conductor(self, work: Callable[[], None]) -> None:
        """Run the conductor's own work in the background."""

    def run_urgently(self, work: Callable[[], None]) -> None:
        """Run the conductor's own work that must not wait behind ordinary work: interrupts and deletes."""

    def run_blocking(self, work: Callable[[], None]) -> None:
        """Run the conductor's own work where it may wait for seconds and hold nothing else up."""


class ControlBus(AgentBus, ConductorBus, Protocol):
    """Both ends, for a control process with hosts of its own."""

    def close(self) -> None:
        """Take nothing more, and wait for what runs."""


class RemoteBus(ControlBus, Protocol):
    """The same, for one that also reaches agents in other processes."""

    def start(self) -> None:
        """Begin to hear agents. Call it when the conductor is served."""

    def agents_changed(self) -> None:
        """Look at once which agents are enrolled."""
