# SPDX-License-Identifier: Apache-2.0
"""Fake broker between control processes and agents; a test delivers each message explicitly.

It has the semantics of the real one (ADR 20): a queue for each agent, sessions, and replies to the sender that awaits
them. Messages wait in ``to[agent]``, so that a test can hold, drop, duplicate and reorder them.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from kilonova.errors import Forbidden, Unavailable
from kilonova.messaging.bus import Accept, Sender
from kilonova.messaging.codec import VERSION, require_known
from kilonova.messaging.messages import (
    AbortLiveMigration,
    AgentMessage,
    Answer,
    ConductorMessage,
    ConsoleAddress,
    ConsoleOutput,
    Diagnostics,
    ForceCompleteLiveMigration,
    GuestQuestion,
    GuestsFound,
    PowerStates,
    PowerStatesAnswer,
    Question,
    QuestionRefused,
    StepState,
    StepStatus,
)
from kilonova.messaging.routes import Routes
from support.manual_bus import ManualBus


@dataclass
class OutgoingMessage:
    """Queued message.

    ``session``: the agent session it is addressed to. ``sender``: the control process that awaits the reply.
    """

    host: str
    message: AgentMessage
    session: str
    sender: str


@dataclass
class ManualBroker:
    """Fake broker. ``is_down``: no process can send or receive."""

    to: dict[str, list[OutgoingMessage]] = field(default_factory=lambda: defaultdict(list))
    controls: dict[str, "ControlEnd"] = field(default_factory=dict)
    agents: dict[str, "AgentEnd"] = field(default_factory=dict)
    is_down: bool = False

    def connect(self, process: str, routes: Routes, may_send: Callable[[], bool]) -> "ControlEnd":
        self.controls[process] = ControlEnd(self, process, routes, may_send)
        return self.controls[process]

    def deliver(self, agent: str) -> bool:
        """Deliver the next message of an agent if the agent is connected. Returns whether a message was delivered."""
        end = self.agents.get(agent)
        if not self.to[agent] or end is None or self.is_down:
            return False
        end.take(self.to[agent].pop(0))
        return True

    def run(self) -> None:
        """Deliver all messages and run all pending work until nothing is left."""
        busy = True
        while busy:
            busy = sum(self.deliver(agent) for agent in list(self.to)) > 0
            for end in (*self.controls.values(), *self.agents.values()):
                busy = end.step() or busy


class ControlEnd(ManualBus):
    """Broker end of a control process. Its own work waits for :meth:`run`, as that of all ends does."""

    def __init__(self, broker: ManualBroker, process: str, routes: Routes, may_send: Callable[[], bool]) -> None:
        super().__init__()
        self.broker = broker
        self.process = process
        self.routes = routes
        self.may_send = may_send
        self.write_heartbeats: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Do nothing: the end is always connected."""

    def agents_changed(self) -> None:
        """Do nothing: the end receives from all agents."""

    @property
    def hears_agents(self) -> bool:
        return not self.broker.is_down

    def hears(self, host: str) -> bool:
        return (self.hears_agents and self.routes.is_alive(host)) or super().hears(host)

    def cast(self, host: str, message: AgentMessage) -> None:
        route = self.routes.of(host)
        if route is None:
            super().cast(host, message)
            return
        require_known(message, route.version, host)
        if self.may_send():
            self.sent.append(message)
            self.broker.to[route.agent].append(OutgoingMessage(host, message, route.session, self.process))

    def hear(self, message: ConductorMessage, *, urgent: bool) -> None:
        super().tell(message, urgent=urgent)

    def answer(self, question: Question, sender: Sender) -> Answer:
        """Answer a question; an answer that waits for a batched write flushes the batch first."""
        assert self._answer is not None
        answer = self._answer(question, sender)
        if isinstance(answer, Future):
            self.write_heartbeats()
            return answer.result(0)
        return answer


class AgentEnd:
    """Broker end of an agent process. ``name``: its broker user. ``version``: the message version it supports."""

    def __init__(self, broker: ManualBroker, name: str, version: int = VERSION) -> None:
        self._broker = broker
        self._name = name
        self._version = version
        self._session = ""
        self._own = ManualBus()
        self._awaited: dict[str, str] = {}
        broker.agents[name] = self

    def begin_session(self, session: str) -> None:
        self._session = session

    def serve_agent(self, host: str, accept: Accept) -> None:
        self._own.serve_agent(host, accept)

    def ask(self, question: Question, within_s: float | None = None) -> Answer:
        del within_s
        if self._broker.is_down or not self._broker.controls:
            raise Unavailable("No control process answered.")
        end = next(reversed(self._broker.controls.values()))
        for host in getattr(question, "guests", ()):
            if not end.routes.may_speak(self._name, host):
                raise Forbidden(f"{self._name} is not enrolled for {host}")
        return end.answer(question, Sender(self._name, self._version))

    def tell(self, message: ConductorMessage, *, urgent: bool = False) -> None:
        match message:
            case GuestsFound() | PowerStates() | PowerStatesAnswer():
                awaited = ""
            case ConsoleOutput() | ConsoleAddress() | Diagnostics() | QuestionRefused():
                awaited = message.asker
            case _:
                awaited = self._awaited.get(message.step.workflow, "")
        awaits = self._broker.controls.get(awaited)
        for end in (awaits,) if awaits is not None else tuple(self._broker.controls.values())[:1]:
            end.hear(message, urgent=urgent)

    def take(self, letter: OutgoingMessage) -> None:
        message: Any = letter.message
        if not isinstance(message, GuestQuestion):
            self._awaited[message.step.workflow] = letter.sender
        if letter.session == self._session:
            self._own.cast(letter.host, message)
        elif not isinstance(message, AbortLiveMigration | ForceCompleteLiveMigration | GuestQuestion):
            self.tell(StepStatus(message.step, letter.host, message.instance_uuid, StepState.UNKNOWN), urgent=True)

    def step(self) -> bool:
        return self._own.step()

    @property
    def waiting(self) -> Mapping[str, int]:
        return self._own.waiting

    def close(self) -> None:
        """Disconnect as ``kill -9`` does.

        Acknowledged messages are lost; queued messages wait for the next agent process.
        """
        self._broker.agents.pop(self._name, None)
        self._own.close()
