# SPDX-License-Identifier: Apache-2.0
"""Clients of the bus at a real broker: a conductor that records messages, and an account without restraint."""

from contextlib import closing
from typing import Any

import amqp

from kilonova.messaging.codec import Envelope, encode
from kilonova.messaging.messages import HeartbeatAnswer, StepId, StepReply
from support.broker import Broker

STEP = StepId("w", "s", 1)


class Heard:
    """Records the messages that reach the conductor."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.questions: list[tuple[Any, str]] = []

    def handle(self, message: Any) -> None:
        self.messages.append(message)

    def answer(self, question: Any, sender: Any) -> HeartbeatAnswer:
        self.questions.append((question, sender.agent))
        return HeartbeatAnswer(question.session, question.number, counts=True)


def reply(host: str = "node1", uuid: str = "a") -> StepReply:
    return StepReply(STEP, host, uuid)


class Hand:
    """A client of the broker that does as it likes with an account."""

    def __init__(self, broker: Broker, user: str) -> None:
        self._broker, self._user = broker, user

    def try_to(self, do: Any) -> str:
        """Return what the broker says to it; "" when it is done."""
        connection = amqp.Connection(
            f"localhost:{self._broker.server.port}", self._user, self._user, confirm_publish=True, connect_timeout=5
        )
        connection.connect()
        with closing(connection):
            try:
                do(connection.channel())
            except amqp.AMQPError as error:
                return str(error)
        return ""

    def publish(self, exchange: str, message: Any, key: str = "", **properties: Any) -> str:
        body = message if isinstance(message, bytes) else encode(Envelope(message))
        return self.try_to(lambda channel: channel.basic_publish(amqp.Message(body, **properties), exchange, key))
