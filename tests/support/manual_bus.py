# SPDX-License-Identifier: Apache-2.0
"""Message bus on which a test runs one piece of work after the other, in any order.

Everything runs on the test's own thread, so a test can stop between any two messages.
"""

import random
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from kilonova.errors import Unavailable
from kilonova.messaging.bus import Accept, Answerer, Sender, Work
from kilonova.messaging.messages import AgentMessage, Answer, ConductorMessage, Question, StepReply
from kilonova.messaging.thread_pools import AgentPool


class ManualBus:
    """Replacement for ``LocalBus``; urgent work runs first, unless ``order`` chooses otherwise.

    ``event``: called before every message. ``copies``: number of deliveries of each message. ``order``: chooses the
    work that runs next; the default is first in, first out.
    """

    def __init__(
        self,
        *,
        event: Callable[[str], None] = lambda _: None,
        copies: int = 1,
        order: random.Random | None = None,
    ) -> None:
        self.cut_off: set[str] = set()
        #: Hosts whose messages to the control process are lost.
        self.muted: set[str] = set()
        self.sent: list[AgentMessage] = []
        self.replies: list[StepReply] = []
        #: Number of work items that were submitted to the blocking thread pool.
        self.aside = 0
        self._event = event
        self._copies = copies
        self._order = order
        self._work: list[Callable[[], None]] = []
        self._agents: dict[str, Accept] = {}
        self._conductor: Callable[[ConductorMessage], None] | None = None
        self._answer: Answerer | None = None

    @property
    def waiting(self) -> Mapping[str, int]:
        return {"work": len(self._work)}

    @property
    def hears_agents(self) -> bool:
        return True

    def hears(self, host: str) -> bool:
        return host in self._agents and host not in self.cut_off

    def serve_agent(self, host: str, accept: Accept) -> None:
        self._agents[host] = accept

    def serve_conductor(self, handler: Callable[[ConductorMessage], None], answer: Answerer) -> None:
        self._conductor, self._answer = handler, answer

    def cast(self, host: str, message: AgentMessage) -> None:
        self._event(f"to {host}: {type(message).__name__}")
        accept = self._agents.get(host)
        if accept is None or host in self.cut_off:
            raise Unavailable(f"No agent serves host {host}.")
        self.sent.append(message)
        for _ in range(self._copies):
            self._take(accept(message))

    def tell(self, message: ConductorMessage, *, urgent: bool = False) -> None:
        self._event(f"from an agent: {type(message).__name__}")
        if isinstance(message, StepReply):
            self.replies.append(message)
        conductor = self._conductor
        if conductor is None:
            raise Unavailable("No conductor is running.")
        if getattr(message, "host", None) in self.muted:
            return
        add = self.run_urgently if urgent else self.run_in_conductor
        for _ in range(self._copies):
            add(lambda: conductor(message))

    def run_in_conductor(self, work: Callable[[], None]) -> None:
        self._work.append(work)

    def run_urgently(self, work: Callable[[], None]) -> None:
        self._work.insert(0, work)

    def run_blocking(self, work: Callable[[], None]) -> None:
        self.aside += 1
        self._work.append(work)

    def begin_session(self, session: str) -> None:
        """Do nothing: messages inside one process never outlive it."""

    def ask(self, question: Question, within_s: float | None = None) -> Answer:
        del within_s
        if self._answer is None:
            raise Unavailable("No conductor is running.")
        answer = self._answer(question, Sender())
        return answer.result() if isinstance(answer, Future) else answer

    def close(self) -> None:
        self._work.clear()

    def _take(self, work: Work | None) -> None:
        """Run an agent's work as ``order`` chooses, and queue the work that follows from it."""
        if work is not None:
            add = self.run_urgently if work.pool is AgentPool.INTERRUPT else self.run_in_conductor
            add(lambda: self._do(work))

    def _do(self, work: Work) -> None:
        for behind in work.run() or ():
            self._take(behind)

    def step(self) -> bool:
        """Run one piece of work. Returns whether there was any."""
        if not self._work:
            return False
        self._work.pop(self._order.randrange(len(self._work)) if self._order else 0)()
        return True

    def run(self, limit: int = 100_000) -> None:
        """Run until no work is left."""
        for _ in range(limit):
            if not self.step():
                return
        raise AssertionError("the bus still has work after the maximum number of steps")
