# SPDX-License-Identifier: Apache-2.0
"""What there is in the broker, what it is called, and who may do what with it (ADR 20).

Each agent has two queues and an exchange of its own, so that the broker can be asked who wrote a message, and a flood
of one agent fills no queue of another. Exchanges of agents are ``fanout``: no header of a message can lead it
elsewhere.
"""

import base64
import hashlib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kilonova.errors import InvalidRequest

#: The exchange through which control processes write to agents; the routing key is the agent's name.
TO_AGENTS = "to"
#: The broker has no name for its default exchange, whose routing key is the name of a queue.
TO_QUEUES = ""
#: Most that waits for one reader. What comes then is refused, and its sender asks again later.
MAX_WAITING = 10_000
MAX_WAITING_BYTES = 64 * 2**20
#: How long the queue of a control process stays when nobody reads it.
_CONTROL_QUEUE_EXPIRES_MS = 60_000
#: An agent has one connection. A process that starts anew may have left one that the broker has not noticed to be gone.
_AGENT_LIMITS = {"max-connections": 8, "max-channels": 16}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_LIMIT = {"x-max-length": MAX_WAITING, "x-max-length-bytes": MAX_WAITING_BYTES, "x-overflow": "reject-publish"}
#: What was given to readers so often, each of which died or lost its connection over it, is dropped: it may be what
#: they die of. Everything that matters is asked for again.
DELIVERED_AT_MOST = 20
_LASTING: Mapping[str, Any] = {"x-queue-type": "quorum", "x-delivery-limit": DELIVERED_AT_MOST, **_LIMIT}
_PASSING: Mapping[str, Any] = {"x-expires": _CONTROL_QUEUE_EXPIRES_MS, **_LIMIT}


def check_agent_name(name: str) -> str:
    """Return the name of an agent that can be one in the broker. Raises: InvalidRequest."""
    if _NAME.fullmatch(name) is None:
        raise InvalidRequest(
            f"An agent cannot be named {name!r}: letters, digits, '.', '_' and '-', beginning with a letter or digit, "
            "and 128 of them at most."
        )
    return name


def to_agent(agent: str) -> str:
    """Return the queue that an agent reads."""
    return f"to.{agent}"


def from_agent(agent: str) -> str:
    """Return the exchange that an agent writes to, and the queue behind it."""
    return f"from.{agent}"


def to_control(process: str) -> str:
    """Return the queue by which one control process is reached by the others."""
    return f"control.{process}"


def declare_agent(channel: Any, agent: str) -> None:
    """Make what an agent needs; what is there already is success. Raises: amqp.AMQPError, OSError."""
    declare_exchange(channel)
    channel.exchange_declare(from_agent(agent), "fanout", durable=True, auto_delete=False)
    for queue, exchange in ((to_agent(agent), TO_AGENTS), (from_agent(agent), from_agent(agent))):
        channel.queue_declare(queue, durable=True, auto_delete=False, arguments=_LASTING)
        channel.queue_bind(queue, exchange, routing_key=agent)


def check_agent(channel: Any, agent: str) -> None:
    """Hold what an agent needs to be there, whoever has made it. Raises: amqp.AMQPError, OSError."""
    for queue in (to_agent(agent), from_agent(agent)):
        channel.queue_declare(queue, passive=True)


def declare_exchange(channel: Any) -> None:
    """Make the exchange to all agents. Raises: amqp.AMQPError, OSError."""
    channel.exchange_declare(TO_AGENTS, "direct", durable=True, auto_delete=False)


def declare_control(channel: Any, process: str) -> None:
    """Make the queue of a control process. Raises: amqp.AMQPError, OSError."""
    channel.queue_declare(to_control(process), durable=True, auto_delete=False, arguments=_PASSING)


@dataclass(frozen=True, slots=True)
class Rights:
    """Regular expressions of the names that a user of the broker may make, write to and read from."""

    configure: str
    write: str
    read: str


def rights_of_agent(agent: str) -> Rights:
    return Rights("^$", f"^from\\.{re.escape(agent)}$", f"^to\\.{re.escape(agent)}$")


#: Of the user of control processes. ``amq.default`` is what rights call the default exchange.
RIGHTS_OF_CONTROL = Rights(
    r"^(to|(to|from|control)\..+)$", r"^(to|amq\.default|(to|from|control)\..+)$", r"^(to|(from|control)\..+)$"
)


@dataclass(frozen=True, slots=True)
class BrokerUser:
    """A user to be defined. ``password``: None for one that identifies itself by a certificate."""

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
    """Return definitions in the form that RabbitMQ imports: users, their rights, and what the agents need."""
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
    """Return what RabbitMQ stores of a password: 32 random bits, and their SHA-256 with the password."""
    salt = os.urandom(4)
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()
