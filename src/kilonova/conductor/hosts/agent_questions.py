# SPDX-License-Identifier: Apache-2.0
"""Ask the agent of a host about a guest, and wait for the answer: never for long, and never with many threads (ADR 24).

::

    ask ──▶ sent ──▶ answered soon                                      the usual case: any number of threads at once
                 └─▶ no answer soon: the host is slow ──▶ answered      a few threads for all hosts, fewer for one
                                                     └──▶ given up      after the time limit

As long as a host is slow, who asks it gets one of those few places first, or is refused at once and sends nothing.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace

from kilonova.errors import AgentTooOld, Unavailable, Unsupported
from kilonova.identifiers import new_uuid
from kilonova.messaging.bus import ConductorBus
from kilonova.messaging.messages import GuestAnswer, GuestQuestion

#: An answer that takes longer makes its host a slow one: agents that are well answer in milliseconds, in tens of them
#: on a busy machine.
_SOON_S = 0.3
_NO_AGENT = "The host of the instance cannot be reached."
_TOO_OLD = "The host of the instance runs an older release, which cannot answer this."
_NO_ANSWER = "The host of the instance does not answer."
_TOO_MANY = "The host of the instance is slow to answer, and others wait for it already. Try again later."


@dataclass(frozen=True, slots=True)
class QuestionLimits:
    """``within_s``: how long an answer may take. ``waiting``: how many threads may wait for hosts that are slow."""

    within_s: float = 10.0
    waiting: int = 4

    @property
    def waiting_for_one(self) -> int:
        """How many of them may wait for the same host."""
        return max(1, self.waiting // 2)


class AgentQuestions:
    """What one control process asks. ``asker``: its name, to which answers come back.

    ``find_agent``: looks whether a host can be reached after all that seemed not to be.
    """

    def __init__(
        self, bus: ConductorBus, asker: str, find_agent: Callable[[str], bool], limits: QuestionLimits | None = None
    ) -> None:
        self._bus = bus
        self._asker = asker
        self._find_agent = find_agent
        self._limits = limits or QuestionLimits()
        self._lock = threading.Lock()
        self._pending: dict[str, tuple[str, str, Future[GuestAnswer]]] = {}
        self._slow: set[str] = set()
        self._waiting: Counter[str] = Counter()

    def ask(self, host: str, question: GuestQuestion) -> GuestAnswer:
        """Return what the agent of ``host`` answers. Its ``question``, ``asker`` and ``within_s`` are filled in here.

        Raises: Unavailable, where there is no agent, no answer in time, or nobody more may wait for it;
        Unsupported, where the agent is too old to understand.
        """
        until = time.monotonic() + self._limits.within_s
        asked = replace(question, question=new_uuid(), asker=self._asker, within_s=self._limits.within_s)
        with self._expecting(host, asked) as answer:
            is_sent = not self._is_slow(host)
            if is_sent:
                self._send(host, asked)
                soon = self._answered_soon(host, answer)
                if soon is not None:
                    return soon
            with self._place(host):
                if not is_sent:
                    self._send(host, asked)
                try:
                    return answer.result(max(0.0, until - time.monotonic()))
                except TimeoutError:
                    raise Unavailable(_NO_ANSWER) from None

    def take(self, answer: GuestAnswer) -> None:
        """Take what an agent answers. What nobody waits for any more still says that its host is not slow."""
        with self._lock:
            host, uuid, waiting = self._pending.get(answer.question, ("", "", None))
            self._slow.discard(answer.host)
            if waiting is not None and (host, uuid) == (answer.host, answer.instance_uuid) and not waiting.done():
                waiting.set_result(answer)

    @contextmanager
    def _expecting(self, host: str, asked: GuestQuestion) -> Iterator[Future[GuestAnswer]]:
        answer: Future[GuestAnswer] = Future()
        with self._lock:
            self._pending[asked.question] = host, asked.instance_uuid, answer
        try:
            yield answer
        finally:
            with self._lock:
                del self._pending[asked.question]

    def _send(self, host: str, asked: GuestQuestion) -> None:
        """Raises: Unavailable, Unsupported, in words that name no host: tenants read them."""
        try:
            self._bus.cast(host, asked)
        except AgentTooOld:
            raise Unsupported(_TOO_OLD) from None
        except Unavailable:
            if not self._find_agent(host):
                raise Unavailable(_NO_AGENT) from None
            self._send(host, asked)

    def _is_slow(self, host: str) -> bool:
        with self._lock:
            return host in self._slow

    def _answered_soon(self, host: str, answer: Future[GuestAnswer]) -> GuestAnswer | None:
        try:
            return answer.result(min(_SOON_S, self._limits.within_s))
        except TimeoutError:
            with self._lock:
                if not answer.done():
                    self._slow.add(host)
            return None

    @contextmanager
    def _place(self, host: str) -> Iterator[None]:
        """Hold one of the places of those who wait for slow hosts. Raises: Unavailable."""
        with self._lock:
            is_full = self._waiting.total() >= self._limits.waiting
            if is_full or self._waiting[host] >= self._limits.waiting_for_one:
                raise Unavailable(_TOO_MANY)
            self._waiting[host] += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting[host] -= 1
                if not self._waiting[host]:
                    del self._waiting[host]
