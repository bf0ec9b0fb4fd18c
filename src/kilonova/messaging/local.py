# SPDX-License-Identifier: Apache-2.0
"""The message bus inside one process."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future

from kilonova.errors import Unavailable
from kilonova.messaging.bus import Accept, Answerer, Sender, Work
from kilonova.messaging.messages import AgentMessage, Answer, ConductorMessage, Question
from kilonova.messaging.thread_pools import AgentPool, ConductorPool, ThreadPools

_AGENT_THREADS = {
    AgentPool.INTERRUPT: 4,
    AgentPool.DELETE: 16,
    AgentPool.ORDINARY: 32,
    AgentPool.MOVE: 64,
    AgentPool.SNAPSHOT: 16,
    AgentPool.QUESTION: 8,
}
_CONDUCTOR_THREADS = {ConductorPool.BLOCKING: 16, ConductorPool.ORDINARY: 4, ConductorPool.URGENT: 4}


class LocalBus:
    """Bus between the agents and the conductor of this process. Messages are handled in thread pools.

    An agent carries out the orders of one instance in order of arrival.
    """

    def __init__(self) -> None:
        self._agents: dict[str, Accept] = {}
        self._conductor: Callable[[ConductorMessage], None] | None = None
        self._answer: Answerer | None = None
        self._is_closing = False
        self._agent_pools = ThreadPools("agent", _AGENT_THREADS)
        self._conductor_pools = ThreadPools("conductor", _CONDUCTOR_THREADS)

    def serve_agent(self, host: str, accept: Accept) -> None:
        self._agents[host] = accept

    @property
    def hears_agents(self) -> bool:
        return True

    def hears(self, host: str) -> bool:
        return host in self._agents

    def serve_conductor(self, handler: Callable[[ConductorMessage], None], answer: Answerer) -> None:
        self._conductor, self._answer = handler, answer

    def cast(self, host: str, message: AgentMessage) -> None:
        accept = self._agents.get(host)
        if accept is None:
            raise Unavailable(f"No agent serves host {host}.")
        self._work(accept(message))

    def tell(self, message: ConductorMessage, *, urgent: bool = False) -> None:
        if self._conductor is None:
            raise Unavailable("This process has no conductor.")
        conductor = self._conductor
        pool = ConductorPool.URGENT if urgent else ConductorPool.ORDINARY
        self._conductor_pools.run(pool, lambda: conductor(message))

    def begin_session(self, session: str) -> None:
        """Do nothing: messages do not outlive this process, and agents drop their queued orders when a session ends."""

    def ask(self, question: Question, within_s: float | None = None) -> Answer:
        del within_s  # the answer comes from this process, so no timeout is needed
        if self._answer is None:
            raise Unavailable("This process has no conductor.")
        answer = self._answer(question, Sender())
        return answer.result() if isinstance(answer, Future) else answer

    def run_in_conductor(self, work: Callable[[], None]) -> None:
        self._conductor_pools.run(ConductorPool.ORDINARY, work)

    def run_urgently(self, work: Callable[[], None]) -> None:
        self._conductor_pools.run(ConductorPool.URGENT, work)

    def run_blocking(self, work: Callable[[], None]) -> None:
        self._conductor_pools.run(ConductorPool.BLOCKING, work)

    @property
    def waiting(self) -> Mapping[str, int]:
        agents = {f"agents {pool}": length for pool, length in self._agent_pools.waiting.items()}
        return agents | {f"conductor {pool}": length for pool, length in self._conductor_pools.waiting.items()}

    def close(self) -> None:
        """Accept no more messages, and wait for the messages that are being handled."""
        self._is_closing = True
        self._agents.clear()
        self._agent_pools.close()
        self._conductor_pools.close()

    def _work(self, work: Work | None) -> None:
        """Run ``work`` in its pool. When it has ended, run the work that was queued behind it."""
        if work is not None and not self._is_closing:
            self._agent_pools.run(work.pool, lambda: self._do(work))

    def _do(self, work: Work) -> None:
        for behind in work.run() or ():
            self._work(behind)
