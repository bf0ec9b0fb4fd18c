# SPDX-License-Identifier: Apache-2.0
"""Both ends of the bus over a real broker, combined into one object that replaces ``LocalBus`` in tests."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from kilonova.identifiers import new_uuid
from kilonova.messaging.bus import Accept
from kilonova.messaging.local import LocalBus
from kilonova.messaging.messages import AgentMessage, Answer, ConductorMessage, Question
from kilonova.messaging.rabbit.agent_end import RabbitAgentBus
from kilonova.messaging.rabbit.conductor_end import RabbitConductorBus
from kilonova.messaging.rabbit.transport_url import Transport
from kilonova.messaging.routes import Route
from support.broker import CONTROL, Broker
from support.waiting import wait_until


@dataclass
class FixedRoutes:
    """Routes defined by a test. ``hosts``: host → its route."""

    hosts: dict[str, Route] = field(default_factory=dict)
    agents: set[str] = field(default_factory=set)
    allowed: Callable[[str, str], bool] = lambda agent, host: True

    def of(self, host: str) -> Route | None:
        return self.hosts.get(host)

    def is_alive(self, host: str) -> bool:
        return host in self.hosts

    def enrolled(self) -> Collection[str]:
        return frozenset(self.agents)

    def may_speak(self, agent: str, host: str) -> bool:
        return self.allowed(agent, host)


def connected(end: RabbitAgentBus | RabbitConductorBus) -> None:
    """Wait until an end of the bus is connected and consumes."""
    wait_until(lambda: end.is_connected, "the bus end to be connected", at_most_s=30)


class RabbitEnds:
    """One control process and one agent process. ``session``: the agent's current session.

    ``transport``: returns the transport of each broker user.
    """

    def __init__(
        self,
        broker: Broker,
        *,
        answered_within_s: float = 10.0,
        transport: Callable[[str], Transport] | None = None,
    ) -> None:
        transport = transport or broker.transport
        self.agent_name = broker.new_agent()
        self.session = new_uuid()
        self.routes = FixedRoutes(agents={self.agent_name})
        self.local = LocalBus()
        self.process = new_uuid()
        self.conductor = RabbitConductorBus(transport(CONTROL), self.process, self.routes, self.local)
        self.agent = RabbitAgentBus(
            self.agent_name, transport(self.agent_name), new_uuid, response_timeout_s=answered_within_s
        )
        self.conductor.start()
        connected(self.conductor)
        self.agent.begin_session(self.session)
        self.agent.start()
        connected(self.agent)

    def serve_agent(self, host: str, accept: Accept) -> None:
        self.routes.hosts[host] = Route(self.agent_name, self.session)
        self.agent.serve_agent(host, accept)

    def tell(self, message: ConductorMessage, *, urgent: bool = False) -> None:
        self.agent.tell(message, urgent=urgent)

    def ask(self, question: Question) -> Answer:
        return self.agent.ask(question)

    def cast(self, host: str, message: AgentMessage) -> None:
        self.conductor.cast(host, message)

    def serve_conductor(self, *handlers: Any) -> None:
        self.conductor.serve_conductor(*handlers)

    def run_in_conductor(self, work: Callable[[], None]) -> None:
        self.conductor.run_in_conductor(work)

    def run_urgently(self, work: Callable[[], None]) -> None:
        self.conductor.run_urgently(work)

    def run_blocking(self, work: Callable[[], None]) -> None:
        self.conductor.run_blocking(work)

    @property
    def hears_agents(self) -> bool:
        return self.conductor.hears_agents

    def hears(self, host: str) -> bool:
        return self.conductor.hears(host)

    @property
    def waiting(self) -> Mapping[str, int]:
        return self.conductor.waiting

    def close(self) -> None:
        self.agent.close()
        self.conductor.close()
