# SPDX-License-Identifier: Apache-2.0
"""Bus wrapper that loses, duplicates, delays and reorders messages by a seed."""

import random
import threading
from collections.abc import Callable
from typing import Any

from kilonova.messaging.bus import Accept
from kilonova.messaging.messages import AgentMessage, Answer, ConductorMessage, Question


class UnreliableBus:
    """Both ends of the bus. ``lost``, ``doubled``, ``held``: probability that a message is lost, duplicated, delayed.

    Delayed messages follow later ones in any order, or when released. ``carried``: number of messages. Questions are
    not affected: the sender waits for the answer and retries on its own.
    """

    def __init__(self, bus: Any, seed: int, *, lost: float = 0.25, doubled: float = 0.25, held: float = 0.4) -> None:
        self.inner = bus
        self.carried = 0
        self._random = random.Random(seed)
        self._lost, self._doubled, self._chance_held = lost, doubled, held
        self._lock = threading.Lock()
        self._held: list[Callable[[], None]] = []
        self.counts = {"lost": 0, "doubled": 0, "held": 0}

    @property
    def hears_agents(self) -> bool:
        return bool(self.inner.hears_agents)

    def hears(self, host: str) -> bool:
        return bool(self.inner.hears(host))

    def serve_agent(self, host: str, accept: Accept) -> None:
        self.inner.serve_agent(host, accept)

    def serve_conductor(self, *handlers: Any) -> None:
        self.inner.serve_conductor(*handlers)

    def begin_session(self, session: str) -> None:
        self.inner.begin_session(session)

    def ask(self, question: Question) -> Answer:
        return self.inner.ask(question)  # type: ignore[no-any-return]

    def cast(self, host: str, message: AgentMessage) -> None:
        self._carry(lambda: self.inner.cast(host, message))

    def tell(self, message: ConductorMessage, *, urgent: bool = False) -> None:
        self._carry(lambda: self.inner.tell(message, urgent=urgent))

    def release(self) -> None:
        """Deliver all delayed messages."""
        with self._lock:
            held, self._held = self._held, []
            self._random.shuffle(held)
        for each in held:
            each()

    def close(self) -> None:
        self.inner.close()

    def _carry(self, send: Callable[[], None]) -> None:
        with self._lock:
            self.carried += 1
            now: list[Callable[[], None]] = []
            if self._random.random() < self._lost:
                self.counts["lost"] += 1
            else:
                doubled = self._random.random() < self._doubled
                self.counts["doubled"] += doubled
                for _ in range(1 + doubled):
                    if self._random.random() < self._chance_held:
                        self.counts["held"] += 1
                        self._held.append(send)
                    else:
                        now.append(send)
            if self._held and self._random.random() < 0.3:
                now.append(self._held.pop(self._random.randrange(len(self._held))))
        for each in now:
            each()
