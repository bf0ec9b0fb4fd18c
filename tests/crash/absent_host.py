# SPDX-License-Identifier: Apache-2.0
"""A bus on which the host of one step is lost: its agent dies or freezes, and comes back when the test says so."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from typing import Any

from crash.points import Watch, WatchedBus
from kilonova.compute.agent import Agent
from kilonova.compute.sessions import start_agents
from kilonova.compute.shutdowns import ShutdownTimes
from kilonova.compute.virt.base import AgentStopsError
from kilonova.messaging.messages import AgentMessage, ConductorMessage, Interrupt, StepReply
from support.cell import Cell

#: Methods of a driver that change no guest.
_QUERIES = frozenset({"report", "list_guests", "marked_guests", "close"})


class Manner(StrEnum):
    """How the agent is lost. A frozen agent finishes its order when it comes back; a dead one has forgotten it."""

    BEFORE_ARRIVAL = "the host is lost before the order arrives"
    FROZEN_BEFORE_WORK = "the agent freezes before its work"
    FROZEN_AFTER_WORK = "the agent freezes after its work"
    DEAD_BEFORE_WORK = "the agent dies before its work"
    DEAD_AFTER_WORK = "the agent dies after its work"

    @property
    def is_frozen(self) -> bool:
        return self in {Manner.FROZEN_BEFORE_WORK, Manner.FROZEN_AFTER_WORK}

    @property
    def is_before_work(self) -> bool:
        return self in {Manner.FROZEN_BEFORE_WORK, Manner.DEAD_BEFORE_WORK}


@dataclass(frozen=True)
class Lost:
    """The order whose host is lost, and how."""

    kind: str
    step: str
    undoing: bool
    manner: Manner

    def __str__(self) -> str:
        return f"{'undo ' if self.undoing else ''}{self.step}: {self.manner}"


class AbsentHostBus(WatchedBus):
    """Loses the host of the first order that ``lost`` describes. ``lost_host``: its name, or "" until then."""

    def __init__(self, watch: Watch, lost: Lost) -> None:
        super().__init__(watch)
        self._lost = lost
        self._guard = threading.Lock()
        self._step: Any = None
        self._thawed = threading.Event()
        self._held: list[ConductorMessage] = []
        self.lost_host = ""

    @property
    def is_lost(self) -> bool:
        return bool(self.lost_host)

    def wrap(self, drivers: Mapping[str, Any]) -> None:
        """Let the drivers lose their host at the beginning of a call."""
        for host, driver in drivers.items():
            for name in dir(driver):
                method = getattr(driver, name)
                if not name.startswith("_") and callable(method) and name not in _QUERIES:
                    setattr(driver, name, self._gated(host, method))

    def _gated(self, host: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._lost.manner.is_before_work and self._begins_to_lose(host):
                if not self._lost.manner.is_frozen:
                    raise AgentStopsError
                self._thawed.wait()
            return method(*args, **kwargs)

        return call

    def _begins_to_lose(self, host: str) -> bool:
        """Lose a host if it has received the order; return False if it has not, or is lost already."""
        with self._guard:
            if self._step is None or self._step[0] != host or self.lost_host:
                return False
            self._lose(host)
            return True

    def _lose(self, host: str) -> None:
        self.away.add(host)
        self.lost_host = host

    def cast(self, host: str, message: AgentMessage) -> None:
        whose = None if isinstance(message, Interrupt) else self._watch.whose(message)
        with self._guard:
            if self._step is None and whose == (self._lost.kind, self._lost.step, self._lost.undoing):
                self._step = host, message.step
                if self._lost.manner is Manner.BEFORE_ARRIVAL:
                    self._lose(host)
                    return
        super().cast(host, message)

    def tell(self, message: ConductorMessage, *, urgent: bool = False) -> None:
        host = getattr(message, "host", None)
        with self._guard:
            if isinstance(message, StepReply) and self._step == (host, message.step) and not self.lost_host:
                self._lose(message.host)
            if host is not None and host == self.lost_host and host in self.away:
                self._held.append(message)
                return
        super().tell(message, urgent=urgent)

    def come_back(self, cell: Cell) -> None:
        """Let the agent begin a new session; a frozen one then finishes its order and sends its replies."""
        host = self.lost_host
        self.away.clear()
        if self._lost.manner.is_frozen:
            agent = next(agent for agent in cell.agents if agent.host == host)
        else:
            self._held.clear()
            agent = Agent(host, cell.drivers[host], self, shutdown_times=ShutdownTimes(0.1, 0.1))
        start_agents([agent], self)
        self._thawed.set()
        for message in self._held:
            self.tell(message)
        cell.conductor.runner.ask_hosts([host])
