# SPDX-License-Identifier: Apache-2.0
"""What somebody tries who has the account of one agent. To add an attempt is to add a line.

``AT_THE_BROKER`` is what the broker refuses. ``AT_CONTROL`` arrives and has no effect.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import amqp

from agents.hostile import Attacker
from kilonova.identifiers import new_uuid
from kilonova.messaging.codec import Envelope, encode
from kilonova.messaging.messages import (
    AskMetadata,
    DestroyGuest,
    GuestsFound,
    Heartbeat,
    HostsRegistered,
    HostsStarted,
    MigrationProgress,
    PostPassword,
    StepId,
    StepReply,
    StepState,
    StepStatus,
)
from kilonova.messaging.rabbit.topology import from_agent, to_agent, to_control
from kilonova.model.instance import PowerState


@dataclass(frozen=True)
class Refused:
    """``do``: with a channel of its own. ``says``: what the broker answers, as a pattern."""

    name: str
    do: Callable[[Attacker, amqp.Channel], object]
    says: str = "ACCESS_REFUSED"


@dataclass(frozen=True)
class Dropped:
    """``log``: what the control process says of it, as a pattern; "" for what could be an honest message come twice."""

    name: str
    do: Callable[[Attacker], object]
    log: str = ""


def theirs(a: Attacker) -> str:
    return to_agent(a.victim.agent)


def said(a: Attacker) -> str:
    return from_agent(a.victim.agent)


def letter(a: Attacker, **properties: Any) -> amqp.Message:
    return amqp.Message(encode(Envelope(reply(a))), **properties)


def reply(a: Attacker, host: str = "", **changed: Any) -> StepReply:
    """Return a reply to the step that the victim carries out."""
    made = StepReply(a.victim.step, host or a.victim.host, a.victim.moving, power_state=PowerState.RUNNING)
    return replace(made, **changed)


def everywhere(a: Attacker) -> dict[str, Any]:
    names = [theirs(a), said(a), to_control(a.control)]
    return {"application_headers": {"CC": names, "BCC": names}}


def asked(message: Any) -> Envelope:
    return Envelope(message, question=new_uuid())


def started(a: Attacker, *hosts: str, session: str = "", node: str = "", **more: Any) -> Envelope:
    reports = tuple(a.report(host, node) for host in hosts or (a.host,))
    return asked(HostsStarted(reports, session=session or new_uuid(), **more))


def guests(a: Attacker, host: str) -> dict[str, Any]:
    return {host: {a.victim.server: PowerState.RUNNING}}


AT_THE_BROKER = (
    Refused("get orders of another", lambda a, c: c.basic_get(theirs(a))),
    Refused("consume orders of another", lambda a, c: c.basic_consume(theirs(a))),
    Refused("get what another says", lambda a, c: c.basic_get(said(a))),
    Refused("get what it said itself", lambda a, c: c.basic_get(from_agent(a.name))),
    Refused("get what control processes pass on", lambda a, c: c.basic_get(to_control(a.control))),
    Refused("bind its queue to orders of another", lambda a, c: c.queue_bind(to_agent(a.name), "to", a.victim.agent)),
    Refused("bind its queue to another's exchange", lambda a, c: c.queue_bind(to_agent(a.name), said(a))),
    Refused("bind another's queue to its exchange", lambda a, c: c.queue_bind(said(a), from_agent(a.name))),
    Refused("bind exchanges", lambda a, c: c.exchange_bind(from_agent(a.name), said(a))),
    Refused("unbind another's queue", lambda a, c: c.queue_unbind(theirs(a), "to", a.victim.agent)),
    Refused("purge orders of another", lambda a, c: c.queue_purge(theirs(a))),
    Refused("purge what another says", lambda a, c: c.queue_purge(said(a))),
    Refused("delete another's queue", lambda a, c: c.queue_delete(theirs(a))),
    Refused("delete its own queue", lambda a, c: c.queue_delete(to_agent(a.name))),
    Refused("delete everybody's exchange", lambda _, c: c.exchange_delete("to")),
    Refused("delete another's exchange", lambda a, c: c.exchange_delete(said(a))),
    Refused("declare a queue", lambda _, c: c.queue_declare("mine")),
    Refused("declare a queue without a name", lambda _, c: c.queue_declare()),
    Refused("declare another's queue", lambda a, c: c.queue_declare(theirs(a), durable=True)),
    Refused("declare an exchange", lambda _, c: c.exchange_declare("mine", "topic")),
    Refused("give an order", lambda a, c: c.basic_publish(letter(a), "to", a.victim.agent)),
    Refused("publish as another", lambda a, c: c.basic_publish(letter(a), said(a))),
    Refused("publish into another's queue", lambda a, c: c.basic_publish(letter(a), "", said(a))),
    Refused("publish as a control process", lambda a, c: c.basic_publish(letter(a), "", to_control(a.control))),
    Refused("publish through another exchange", lambda a, c: c.basic_publish(letter(a), "amq.topic", said(a))),
    Refused(
        "sign as another",
        lambda a, c: c.basic_publish(letter(a, user_id=a.victim.agent), from_agent(a.name)),
        "PRECONDITION_FAILED",
    ),
    Refused(
        "sign as a control process",
        lambda a, c: c.basic_publish(letter(a, user_id="control"), from_agent(a.name)),
        "PRECONDITION_FAILED",
    ),
    Refused("connect without end", lambda a, _: [a.connect() for _ in range(20)], "connection limit|NOT_ALLOWED"),
    Refused(
        "open channels without end", lambda _, c: [c.connection.channel() for _ in range(40)], "channel|NOT_ALLOWED"
    ),
)

_FOREIGN_HOST = "for which the agent is not enrolled"
_FOREIGN_SESSION = "does not own session"
AT_CONTROL = (
    # Who has written it?
    Dropped("sign without a user", lambda a: a.publish(reply(a), user_id=None), "the message has no verified user"),
    Dropped("copies to all queues", lambda a: a.publish(reply(a), **everywhere(a)), _FOREIGN_HOST),
    Dropped(
        "copies to all queues, signed by nobody",
        lambda a: a.publish(reply(a), user_id=None, **everywhere(a)),
        "the message has no verified user",
    ),
    # Speak for the host of another.
    Dropped("reply for another", lambda a: a.publish(reply(a)), _FOREIGN_HOST),
    Dropped("fail for another", lambda a: a.publish(reply(a, error="It broke.")), _FOREIGN_HOST),
    Dropped(
        "status for another",
        lambda a: a.publish(StepStatus(a.victim.step, a.victim.host, a.victim.moving, StepState.UNKNOWN)),
        _FOREIGN_HOST,
    ),
    Dropped(
        "reply for another inside a status",
        lambda a: a.publish(StepStatus(a.victim.step, a.host, a.victim.moving, StepState.DONE, reply(a))),
        _FOREIGN_HOST,
    ),
    Dropped(
        "progress for another",
        lambda a: a.publish(MigrationProgress(a.victim.step, a.victim.host, a.victim.moving, 9, 5, 4)),
        _FOREIGN_HOST,
    ),
    Dropped("guests of another", lambda a: a.publish(GuestsFound({a.victim.host: {}})), _FOREIGN_HOST),
    Dropped("heartbeat for another", lambda a: a.publish(asked(Heartbeat((a.victim.host,), "s"))), _FOREIGN_HOST),
    Dropped("report for another", lambda a: a.publish(started(a, a.victim.host)), _FOREIGN_HOST),
    Dropped("report for another too", lambda a: a.publish(started(a, a.host, a.victim.host)), _FOREIGN_HOST),
    Dropped(
        "report of guests for another", lambda a: a.publish(started(a, guests=guests(a, a.victim.host))), _FOREIGN_HOST
    ),
    Dropped("marks for another", lambda a: a.publish(started(a, marked={a.victim.host: {}})), _FOREIGN_HOST),
    Dropped("report a host of nobody", lambda a: a.publish(started(a, "elsewhere")), _FOREIGN_HOST),
    Dropped(
        "call its hypervisor as another's host",
        lambda a: a.publish(started(a, node=a.victim.host)),
        "which is a host of another agent",
    ),
    Dropped(
        "metadata of another's guest",
        lambda a: a.publish(asked(AskMetadata(a.victim.host, *a.victim.guest))),
        _FOREIGN_HOST,
    ),
    Dropped(
        "password of another's guest",
        lambda a: a.publish(asked(PostPassword(a.victim.host, *a.victim.guest, password="mine"))),
        _FOREIGN_HOST,
    ),
    Dropped(
        "password of another's guest, as one of its own",
        lambda a: a.publish(asked(PostPassword(a.host, *a.victim.guest, password="mine"))),
    ),
    # Steps of another, told of its own host: captured ids and guessed ones.
    Dropped("reply to another's step", lambda a: a.publish(reply(a, a.host)), "is for another host or server"),
    Dropped(
        "fail another's step", lambda a: a.publish(reply(a, a.host, error="It broke.")), "is for another host or server"
    ),
    Dropped(
        "status of another's step",
        lambda a: a.publish(StepStatus(a.victim.step, a.host, a.victim.moving, StepState.UNKNOWN)),
        "is for another host or server",
    ),
    Dropped(
        "progress of another's step",
        lambda a: a.publish(MigrationProgress(a.victim.step, a.host, a.victim.moving, 9, 5, 4)),
        "is for another host or server",
    ),
    Dropped(
        "reply to a guessed attempt",
        lambda a: a.publish(reply(a, a.host, step=replace(a.victim.step, attempt=a.victim.step.attempt + 1))),
    ),
    Dropped("reply to a guessed workflow", lambda a: a.publish(reply(a, a.host, step=StepId(new_uuid(), "spawn", 1)))),
    Dropped("removal of another's guest", lambda a: a.publish(reply(a, a.host, step=StepId("", "guests", 0)))),
    Dropped("sent on to another process", lambda a: a.publish(Envelope(reply(a, a.host), reply_to=a.victim.agent))),
    Dropped("sent on into a queue", lambda a: a.publish(Envelope(reply(a, a.host), reply_to=f"x.{theirs(a)}"))),
    # Sessions of others, and its own that are over.
    Dropped(
        "heartbeat for another's session",
        lambda a: a.publish(asked(Heartbeat((), a.victim.session))),
        _FOREIGN_SESSION,
    ),
    Dropped("heartbeat for a control process", lambda a: a.publish(asked(Heartbeat((), a.control))), _FOREIGN_SESSION),
    Dropped("heartbeat for no session", lambda a: a.publish(asked(Heartbeat((a.host,), ""))), _FOREIGN_SESSION),
    Dropped("heartbeat for a guessed session", lambda a: a.publish(asked(Heartbeat((a.host,), new_uuid())))),
    Dropped("report in another's session", lambda a: a.publish(started(a, session=a.victim.session)), _FOREIGN_SESSION),
    Dropped("report as a control process", lambda a: a.publish(started(a, session=a.control)), _FOREIGN_SESSION),
    Dropped("report in no session", lambda a: a.publish(asked(HostsStarted((a.report(),)))), _FOREIGN_SESSION),
    Dropped("report again in a session that is over", lambda a: a.publish(started(a, session=a.ended)), "has ended"),
    Dropped("heartbeat of a session that is over", lambda a: a.publish(asked(Heartbeat((a.host,), a.ended)))),
    # What agents do not send.
    Dropped(
        "an order",
        lambda a: a.publish(DestroyGuest(StepId("", "x", 0), a.victim.server)),
        "agents may not send a Destroy",
    ),
    Dropped("an answer", lambda a: a.publish(HostsRegistered()), "agents may not send a HostsRegistered"),
    # What is no message.
    Dropped("nothing", lambda a: a.publish(b""), "truncated"),
    Dropped("no JSON", lambda a: a.publish(b"\x80\x04\x95cos\nsystem\n"), "malformed"),
    Dropped("no text", lambda a: a.publish(b'"\xff\xfe"'), "is dropped"),
    Dropped(
        "a content type that is no text",
        lambda a: a.publish_odd(b"\x80\x00\x02\xff\xfe"),
        "the message has no verified user",
    ),
    Dropped(
        "a time at the end of all times",
        lambda a: a.publish_odd(b"\x00\x40" + b"\x7f" * 8),
        "the message has no verified user",
    ),
    Dropped(
        "a routing key that is no text", lambda a: a.publish(b"", key=b"\xff\xfe"), "a message that cannot be read"
    ),
    Dropped("another type", lambda a: a.publish(b"[1, 2, 3]"), "Expected `object`"),
    Dropped("no end of nesting", lambda a: a.publish(b'{"version": 2, "x": ' + b"[" * 1_000_000), "is dropped"),
    Dropped(
        "no end of nesting inside",
        lambda a: a.publish(b'{"version": 2, "message": "Heartbeat", "body": {"hosts": ' + b"[" * 1_000_000),
        "is dropped",
    ),
    Dropped(
        "a newer version", lambda a: a.publish(b'{"version": 99, "message": "StepReply", "body": {}}'), "version 99"
    ),
    Dropped(
        "a negative version", lambda a: a.publish(b'{"version": -1, "message": "StepReply", "body": {}}'), "dropped"
    ),
    Dropped("a huge number", lambda a: a.publish(b'{"version": 1e999, "message": "StepReply", "body": {}}'), "dropped"),
    Dropped("an empty message", lambda a: a.publish(b'{"version": 2, "message": "StepReply", "body": {}}'), "missing"),
    Dropped(
        "lines of its own in the log",
        lambda a: a.publish(started(a, "x\n2026-01-01 CRITICAL all is lost\n\x1b[2J")),
        r"host 'x\\n2026-01-01 CRITICAL",
    ),
    Dropped("a host without a name", lambda a: a.publish(started(a, "\0")), _FOREIGN_HOST),
    Dropped("a huge inventory", lambda a: a.publish(a.odd_report(total=10**30)), "is not answered|is dropped"),
    Dropped("a negative inventory", lambda a: a.publish(a.odd_report(total=-1)), "is not answered|is dropped"),
    Dropped("an unknown trait", lambda a: a.publish(a.odd_report(trait="HW_NONSENSE")), "is not answered"),
    Dropped("a trait that is none", lambda a: a.publish(a.odd_report(trait="CUSTOM_\n")), "is not answered"),
    Dropped("a long address", lambda a: a.publish(a.odd_report(host_ip="1" * 100_000)), "is not answered"),
)
