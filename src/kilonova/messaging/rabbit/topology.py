# SPDX-License-Identifier: Apache-2.0
"""Exchanges, queues and permissions at the broker (ADR 20).

Each agent has two queues and an exchange of its own. So the broker can verify the sender of a message, and an agent
that sends too many messages cannot fill the queue of another agent. Exchanges of agents are ``fanout``, so no header
can route a message to the queue of another agent.
"""

import base64
import hashlib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kilonova.errors import InvalidRequest
from kilonova.records import dataclass

#: The exchange through which control processes write to agents; the routing key is the agent's name.
TO_AGENTS = "to"
#: Name of the broker's default exchange; the routing key is the name of the queue.
TO_QUEUES = ""
#: Maximum length of a queue in messages and bytes. Further messages are rejected, and their senders retry later.
MAX_WAITING = 10_000
MAX_WAITING_BYTES = 64 * 2**20
#: Milliseconds after which the unread queue of a control process is deleted.
_CONTROL_QUEUE_EXPIRES_MS = 60_000
#: Limits of an agent's user. An agent has one connection, but the broker may also count lost connections of earlier
#: processes of the agent.
_AGENT_LIMITS = {"max-connections": 8, "max-channels": 16}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_LIMIT = {"x-max-length": MAX_WAITING, "x-max-length-bytes": MAX_WAITING_BYTES, "x-overflow": "reject-publish"}
#: Number of deliveries after which the broker drops an unacknowledged message, because the message may crash every
#: process that receives it. The senders of important messages send them again.
DELIVERED_AT_MOST = 20
_LASTING: Mapping[str, Any] = {"x-queue-type": "quorum", "x-delivery-limit": DELIVERED_AT_MOST, **_LIMIT}
_PASSING: Mapping[str, Any] = {"x-expires": _CONTROL_QUEUE_EXPIRES_MS, **_LIMIT}


def check_agent_name(name: str) -> str:
    """Validate and return an agent's name, which becomes part of names at the broker. Raises: InvalidRequest."""
    if _NAME.fullmatch(name) is None:
        raise InvalidRequest(
            f"An agent cannot be named {name!r}: use at most 128 letters, digits, '.', '_' and '-', the first a letter "
            "or a digit."
        )
    return name


def to_agent(agent: str) -> str:
    """Return the name of the queue that an agent reads."""
    return f"to.{agent}"


def from_agent(agent: str) -> str:
    """Return the name of the exchange that an agent writes to; the queue bound to it has the same name."""
    return f"from.{agent}"


def to_control(process: str) -> str:
    """Return the name of the queue by which other control processes reach a control process."""
    return f"control.{process}"


def declare_agent(channel: Any, agent: str) -> None:
    """Declare the exchange, queues and bindings of an agent, if absent. Raises: amqp.AMQPError, OSError."""
    declare_exchange(channel)
    channel.exchange_declare(from_agent(agent), "fanout", durable=True, auto_delete=False)
    for queue, exchange in ((to_agent(agent), TO_AGENTS), (from_agent(agent), from_agent(agent))):
        channel.queue_declare(queue, durable=True, auto_delete=False, arguments=_LASTING)
        channel.queue_bind(queue, exchange, routing_key=agent)


def check_agent(channel: Any, agent: str) -> None:
    """Check that the queues of an agent exist. Raises: amqp.AMQPError, OSError."""
    for queue in (to_agent(agent), from_agent(agent)):
        channel.queue_declare(queue, passive=True)


def declare_exchange(channel: Any) -> None:
    """Declare the exchange for messages to agents. Raises: amqp.AMQPError, OSError."""
    channel.exchange_declare(TO_AGENTS, "direct", durable=True, auto_delete=False)


def declare_control(channel: Any, process: str) -> None:
    """Declare the queue of a control process. Raises: amqp.AMQPError, OSError."""
    channel.queue_declare(to_control(process), durable=True, auto_delete=False, arguments=_PASSING)


@dataclass(frozen=True, slots=True)
class Rights:
    """Permissions of a user of the broker: regular expressions for the objects to configure, write to and read from."""

    configure: str
    write: str
    read: str


def rights_of_agent(agent: str) -> Rights:
    return Rights("^$", f"^from\\.{re.escape(agent)}$", f"^to\\.{re.escape(agent)}$")


#: Permissions of the user of control processes. In permissions, RabbitMQ names the default exchange ``amq.default``.
RIGHTS_OF_CONTROL = Rights(
    r"^(to|(to|from|control)\..+)$", r"^(to|amq\.default|(to|from|control)\..+)$", r"^(to|(from|control)\..+)$"
)


@dataclass(frozen=True, slots=True)
class BrokerUser:
    """A user to define at the broker. ``password``: None for a user that authenticates by a certificate."""

    name: str
    password: str | None
    rights: Rights
    limits: Mapping[str, int]
    tags: str = ""


def agent_user(agent: str, password: str | None) -> BrokerUser:
    return BrokerUser(check_agent_name(agent), password, rights_of_agent(agent), _AGENT_LIMITS)


def control_user(name: str, password: str | None) -> BrokerUser:
    return BrokerUser(name, password, RIGHTS_OF_CONTROL, {})


def definitions(vhost: str, users: Sequence[BrokerUser], agents: Collection[str]) -> dict[str, Any]:
    """Return RabbitMQ definitions to import: users, their permissions, and the exchanges and queues of ``agents``."""
    own = {"vhost": vhost, "durable": True, "auto_delete": False}
    ends = [(to_agent(agent), TO_AGENTS, agent) for agent in agents]
    ends += [(from_agent(agent), from_agent(agent), agent) for agent in agents]
    exchanges = {TO_AGENTS: "direct", **{from_agent(agent): "fanout" for agent in agents}}
    return {
        "vhosts": [{"name": vhost}],
        "users": [
            {
                "name": user.name,
                "tags": user.tags,
                "password_hash": "" if user.password is None else password_hash(user.password),
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "limits": dict(user.limits),
            }
            for user in users
        ],
        "permissions": [
            {
                "user": user.name,
                "vhost": vhost,
                "configure": user.rights.configure,
                "write": user.rights.write,
                "read": user.rights.read,
            }
            for user in users
        ],
        "exchanges": [
            {**own, "name": name, "type": kind, "internal": False, "arguments": {}} for name, kind in exchanges.items()
        ],
        "queues": [{**own, "name": queue, "arguments": dict(_LASTING)} for queue, _, _ in ends],
        "bindings": [
            {
                "vhost": vhost,
                "source": exchange,
                "destination": queue,
                "destination_type": "queue",
                "routing_key": agent,
                "arguments": {},
            }
            for queue, exchange, agent in ends
        ],
    }


def password_hash(password: str) -> str:
    """Return RabbitMQ's hash of a password: base64 of a 32-bit salt followed by the SHA-256 of salt and password."""
    salt = os.urandom(4)
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()
