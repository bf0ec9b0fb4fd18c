# SPDX-License-Identifier: Apache-2.0
"""Authentication of the sender of a message, and authorization for the hosts that the message names (ADR 20)."""

from collections.abc import Iterator

from kilonova.errors import Forbidden
from kilonova.messaging.codec import Message
from kilonova.messaging.messages import (
    AskMetadata,
    CachedImages,
    ConsoleAddress,
    ConsoleOutput,
    Diagnostics,
    GuestsFound,
    Heartbeat,
    HostsStarted,
    MigrationProgress,
    PostPassword,
    PowerStates,
    PowerStatesAnswer,
    QuestionRefused,
    StepReply,
    StepStatus,
    TaskReached,
)
from kilonova.messaging.rabbit.outgoing import Delivery
from kilonova.messaging.rabbit.topology import from_agent
from kilonova.messaging.routes import Routes


def check_writer(routes: Routes, agent: str, delivery: Delivery) -> None:
    """Check that a delivery from the queue of an agent was sent by that agent, as verified by the broker.

    Raises: Forbidden.
    """
    if not delivery.user:
        raise Forbidden("the message has no verified user")
    if delivery.user != agent:
        raise Forbidden(f"the message was sent by broker user {delivery.user!r}")
    if delivery.exchange != from_agent(agent):
        raise Forbidden(f"the message came through exchange {delivery.exchange!r}")
    if agent not in routes.enrolled():
        raise Forbidden("the agent is not enrolled")


def check_hosts(routes: Routes, agent: str, message: Message) -> None:
    """Check that a message names only hosts for which its agent is enrolled. Raises: Forbidden."""
    for host in _hosts_of(message):
        if not routes.may_speak(agent, host):
            raise Forbidden(
                f"the message is a {type(message).__name__} for host {host!r}, for which the agent is not enrolled"
            )


def _hosts_of(message: Message) -> Iterator[str]:
    """Yield every host that a message of an agent names. Raises: Forbidden if agents may not send this message type."""
    match message:
        case Heartbeat():
            yield from message.hosts
        case HostsStarted():
            yield from (report.host for report in message.reports)
            yield from message.guests
            yield from message.marked
        case GuestsFound():
            yield from message.guests
            yield from message.marked
        case PowerStates():
            yield from message.guests
        case StepStatus():
            yield message.host
            if message.reply is not None:
                yield message.reply.host
        case StepReply() | TaskReached() | MigrationProgress() | PowerStatesAnswer():
            yield message.host
        case AskMetadata() | PostPassword():
            yield message.host
        case CachedImages() | ConsoleOutput() | ConsoleAddress() | Diagnostics() | QuestionRefused():
            yield message.host
        case _:
            raise Forbidden(f"agents may not send a {type(message).__name__}")
