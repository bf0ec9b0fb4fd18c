# SPDX-License-Identifier: Apache-2.0
"""Somebody who has broken into a host: the account of its agent at the broker, and everything that was ever sent to it.

The victim is another agent, with hosts, a server and a move under way. Its ids are given to the attacker as if they had
been guessed or captured.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import amqp
import sqlalchemy as sa

from agents.cloud import AgentCloud
from kilonova.db import enrolment
from kilonova.db.core import tables as t
from kilonova.identifiers import new_uuid
from kilonova.messaging.codec import Envelope, decode, encode
from kilonova.messaging.messages import HostsStarted, StepId
from kilonova.messaging.rabbit.topology import from_agent, to_agent
from kilonova.model.host import Capabilities, NodeReport
from kilonova.model.provider import Inventory
from support.waiting import wait_until

MARKER = "There is no message 'Marker'"


@dataclass(frozen=True)
class Victim:
    """``server`` runs on ``host``; ``moving`` is at ``step``, which the agent of ``host`` carries out.

    ``guest``: network, address and MAC address of ``server``.
    """

    agent: str
    host: str
    session: str
    server: str
    moving: str
    step: StepId
    guest: tuple[str, str, str] = ("net", "10.1.0.9", "fa:16:3e:00:00:01")


@dataclass
class Attacker:
    """Has the account ``name``, for ``host`` alone."""

    cloud: AgentCloud
    victim: Victim
    name: str = ""
    sessions: tuple[str, str] = ("", "")
    connections: list[amqp.Connection] = field(default_factory=list)
    _quick: amqp.Channel | None = None

    def __post_init__(self) -> None:
        self.name = self.cloud.broker.new_agent()
        self.cloud.control.process.database.write(lambda tx: enrolment.enrol(tx, self.name, [self.host]))
        self.look()

    @property
    def host(self) -> str:
        return f"host-of-{self.name}"

    @property
    def control(self) -> str:
        """The id of the control process."""
        return self.cloud.control.process.conductor.owner

    def look(self) -> None:
        """Have the control process look who is enrolled, as it does every second."""
        directory = self.cloud.control.process.conductor.directory
        assert directory is not None
        directory.look()
        wait_until(lambda: self.cloud.control.process.core.bus.is_connected, "all agents are heard", at_most_s=30)

    def connect(self) -> amqp.Connection:
        place = f"127.0.0.1:{self.cloud.broker.server.port}"
        made = amqp.Connection(place, self.name, self.name, confirm_publish=True, connect_timeout=5)
        made.connect()
        self.connections.append(made)
        return made

    def refused(self, do: Callable[[amqp.Channel], object]) -> str:
        """Return what the broker says to something; "" when it is done."""
        with closing(self.connect()) as connection:
            try:
                do(connection.channel())
            except amqp.AMQPError as error:
                return str(error)
        return ""

    def publish(self, body: Any, exchange: str | None = None, key: str | bytes = "", **properties: Any) -> None:
        """Send bytes, or a message, as its agent does; ``properties`` replace those of its agent."""
        data = body if isinstance(body, bytes) else encode(body if isinstance(body, Envelope) else Envelope(body))
        given = {"user_id": self.name, **properties}
        message = amqp.Message(data, **{name: value for name, value in given.items() if value is not None})
        to = from_agent(self.name) if exchange is None else exchange
        said = self.refused(lambda channel: channel.basic_publish(message, to, key))
        if said:
            raise AssertionError(said)

    def publish_quickly(self, envelope: Envelope) -> None:
        """Send without waiting for the broker to confirm it, over one connection."""
        if self._quick is None:
            self._quick = self.connect().channel()
        self._quick._basic_publish(amqp.Message(encode(envelope), user_id=self.name), from_agent(self.name), "")

    def mark(self) -> None:
        """Send what shows in the log that everything before it was read."""
        self.publish(b'{"version": 2, "message": "Marker", "body": {}}')

    @property
    def ended(self) -> str:
        """A session that it had, before the present one. Made by :meth:`prepare`, since it changes the database."""
        return self.sessions[0]

    def prepare(self) -> None:
        """Begin two sessions, of which the first ends with the second."""
        self.sessions = (self.begin(), self.begin())

    def odd_report(self, total: int = 8, trait: str = "COMPUTE_NODE", host_ip: str = "127.0.0.1") -> Envelope:
        odd = replace(self.report(), inventories=(Inventory("VCPU", total),), traits=(trait,), host_ip=host_ip)
        return Envelope(HostsStarted((odd,), session=new_uuid()), question=new_uuid())

    def publish_odd(self, properties: bytes) -> None:
        """Send a message whose properties the client library would not write."""

        class Odd(amqp.Message):  # type: ignore[misc]
            def _serialize_properties(self) -> bytes:
                return properties

        said = self.refused(lambda channel: channel.basic_publish(Odd(b"{}"), from_agent(self.name), ""))
        if said:
            raise AssertionError(said)

    def report(self, host: str = "", node: str = "") -> NodeReport:
        host = host or self.host
        return NodeReport(host, node or host, Capabilities(), (Inventory("VCPU", 8), Inventory("MEMORY_MB", 8192)))

    def begin(self, session: str = "") -> str:
        """Begin a session as its agent would, and return it."""
        session = session or new_uuid()
        self.publish(Envelope(HostsStarted((self.report(),), session=session), session=session, question=new_uuid()))
        wait_until(self.answers, "the session is answered", at_most_s=30)
        return session

    def answers(self) -> list[Envelope]:
        """Take what was sent to it."""
        return list(self._inbox())

    def _inbox(self) -> Iterator[Envelope]:
        with closing(self.connect()) as connection:
            channel = connection.channel()
            while (message := channel.basic_get(to_agent(self.name), no_ack=True)) is not None:
                yield decode(bytes(message.body) if isinstance(message.body, bytes) else message.body.encode())

    def close(self) -> None:
        for connection in self.connections:
            connection.collect()


def rows(cloud: AgentCloud) -> dict[str, list[str]]:
    """Everything in the database, but for what says since when processes are alive."""
    found = cloud.control.everything()
    process = t.processes.c
    with cloud.control.process.database.read() as connection:
        known = sa.select(process.uuid, process.agent, process.machine)
        found["processes"] = sorted(map(repr, connection.execute(known)))
    return found
