# SPDX-License-Identifier: Apache-2.0
"""Synchronous questions to the agent of a host about a guest, with a timeout and a limit of waiting threads (ADR 24).

::

    ask ──▶ sent ──▶ answered soon                                   the usual case: any number of threads may wait
                 └─▶ no answer soon: the host is slow ──▶ answered   few threads may wait for all slow hosts together
                                                     └──▶ given up   after the timeout

A thread needs one of a few permits to wait longer, or to send another question to a slow host. If no permit is free,
the request is refused at once.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace

from kilonova.errors import AgentTooOld, Unavailable, Unsupported
from kilonova.identifiers import new_uuid
from kilonova.messaging.bus import ConductorBus
from kilonova.messaging.messages import GuestAnswer, GuestQuestion
from kilonova.records import dataclass

#: Seconds without an answer after which a host is considered slow. Healthy agents answer in milliseconds, or in tens of
#: milliseconds on a busy machine.
_SOON_S = 0.3
_NO_AGENT = "The host of the instance cannot be reached."
_TOO_OLD = "The host of the instance runs an older release, which cannot answer this query."
_NO_ANSWER = "The host of the instance does not answer."
_TOO_MANY = "The host of the instance is slow to answer, and too many requests wait for slow hosts. Try again later."


@dataclass(frozen=True, slots=True)
class QuestionLimits:
    """Limits of questions. ``within_s``: timeout in seconds. ``waiting``: how many threads may wait for slow hosts."""

    within_s: float = 10.0
    waiting: int = 4

    @property
    def waiting_for_one(self) -> int:
        """Number of threads that may wait for the same slow host."""
        return max(1, self.waiting // 2)


class AgentQuestions:
    """The questions of one control process. ``asker``: name of the process, to which the answers are sent.

    ``find_agent``: called with a host that has no route; searches the database for its agent and returns True if found.
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
        """Send a question to a host's agent and return the answer.

        The fields ``question``, ``asker`` and ``within_s`` of the question are set here.
        Raises: Unavailable if the agent is unreachable or does not answer in time, or if too many threads wait for slow
        hosts; Unsupported if the agent's release does not have the question.
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
        """Accept an agent's answer. After any answer, even one after the timeout, the host is no longer slow."""
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
        """Send a question. Raises: Unavailable, Unsupported; their texts name no host, because users read them."""
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
        """During the block, hold a permit to wait for a slow host. Raises: Unavailable if no permit is free."""
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
