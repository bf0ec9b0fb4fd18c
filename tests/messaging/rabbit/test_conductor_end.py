# SPDX-License-Identifier: Apache-2.0
"""What a control process takes from the broker, and which of the control processes takes it."""

import logging
import threading
import time
from typing import Any

import amqp
import pytest

from kilonova.errors import AgentTooOld
from kilonova.identifiers import new_uuid
from kilonova.messaging.codec import Envelope, encode
from kilonova.messaging.local import LocalBus
from kilonova.messaging.messages import (
    AskConsoleOutput,
    AskStep,
    ConsoleOutput,
    Heartbeat,
    HeartbeatAnswer,
    PauseGuest,
    QuestionRefused,
    StepId,
    StepReply,
    StepState,
    StepStatus,
    StopGuest,
)
from kilonova.messaging.rabbit.agent_end import RabbitAgentBus
from kilonova.messaging.rabbit.conductor_end import RabbitConductorBus
from kilonova.messaging.rabbit.outgoing import Delivery
from kilonova.messaging.rabbit.topology import DELIVERED_AT_MOST, from_agent
from kilonova.messaging.routes import Route
from support.broker import CONTROL, Broker
from support.rabbit_clients import STEP, Hand, Heard, reply
from support.rabbit_ends import RabbitEnds, connected
from support.waiting import wait_until


def test_only_what_the_broker_vouches_for_is_heard(
    broker: Broker, ends: RabbitEnds, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    hand, mine = Hand(broker, ends.agent_name), from_agent(ends.agent_name)
    caplog.set_level(logging.WARNING)
    own = {"user_id": ends.agent_name}
    assert hand.publish(mine, reply(uuid="without user")) == ""
    assert hand.publish(mine, reply(host="node2", uuid="foreign host"), **own) == ""
    foreign = StepStatus(STEP, "node1", "foreign inside", StepState.DONE, reply(host="node2"))
    assert hand.publish(mine, foreign, **own) == ""
    assert hand.publish(mine, Heartbeat(("node1", "node2")), **own) == ""
    assert hand.publish(mine, StopGuest(STEP, "an order"), **own) == ""
    assert hand.publish(mine, b"{nonsense", **own) == ""
    assert hand.publish(mine, b'{"version": 99, "message": "StepReply", "body": {}}', **own) == ""
    assert hand.publish(mine, reply(uuid="good"), **own) == ""
    wait_until(lambda: heard.messages, "the good one is heard")
    assert heard.messages == [reply(uuid="good")]
    assert not heard.questions
    for why in (
        "the message has no verified user",
        "the message is a StepReply for host 'node2', for which the agent is not enrolled",
        "agents may not send a StopGuest",
        "JSON is malformed",
        "Unsupported message version 99",
    ):
        assert f"A message of agent {ends.agent_name} is dropped: {why}" in caplog.text


def test_who_is_no_longer_enrolled_is_heard_no_more(
    broker: Broker, ends: RabbitEnds, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    ends.tell(reply(uuid="before"))
    wait_until(lambda: heard.messages, "it is heard")
    ends.routes.agents.clear()
    ends.tell(reply(uuid="at once"))
    wait_until(lambda: "the agent is not enrolled" in caplog.text, "it is dropped")
    ends.conductor.agents_changed()
    wait_until(lambda: not readers(broker, from_agent(ends.agent_name)), "its queue is not read any more")
    ends.tell(reply(uuid="later"))
    wait_until(lambda: ends.agent.waiting["to the broker"] == 0, "the broker has it")
    assert heard.messages == [reply(uuid="before")]


def readers(broker: Broker, queue: str) -> int:
    """How many read a queue."""
    counts: list[int] = []
    Hand(broker, CONTROL).try_to(lambda channel: counts.append(channel.queue_declare(queue, passive=True)[2]))
    return counts[0]


def test_a_question_is_answered_to_whoever_asked(ends: RabbitEnds, heard: Heard) -> None:
    assert ends.ask(Heartbeat(("node1",), "s", 7)) == HeartbeatAnswer("s", 7, counts=True)
    assert heard.questions == [(Heartbeat(("node1",), "s", 7), ends.agent_name)]


def test_a_reply_goes_to_the_control_process_that_awaits_it(broker: Broker, ends: RabbitEnds, heard: Heard) -> None:
    others: list[Any] = []
    second = RabbitConductorBus(broker.transport(CONTROL), new_uuid(), ends.routes, LocalBus())
    second.serve_conductor(others.append, heard.answer)
    second.start()
    connected(second)
    ends.agent.serve_agent("node1", lambda message: ends.tell(StepReply(message.step, "node1", "a")))
    for number in range(20):
        ends.cast("node1", StopGuest(StepId("ours", "s", number), "a"))
        second.cast("node1", StopGuest(StepId("theirs", "s", number), "a"))
    wait_until(lambda: len(heard.messages) + len(others) == 40, "all replies come")
    assert {message.step.workflow for message in heard.messages} == {"ours"}
    assert {message.step.workflow for message in others} == {"theirs"}
    second.close()


def test_replies_to_the_first_messages_of_a_process_are_not_lost(
    broker: Broker, ends: RabbitEnds, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    """Another control process hears some of them, and forwards them to a queue that has to exist by then."""
    others: list[Any] = []
    ends.agent.serve_agent("node1", lambda message: ends.tell(StepReply(message.step, "node1", "a")))
    second = RabbitConductorBus(broker.transport(CONTROL), new_uuid(), ends.routes, LocalBus())
    second.serve_conductor(others.append, heard.answer)
    for number in range(20):  # as a process that resumes the workflows of another one at its start
        second.cast("node1", StopGuest(StepId("theirs", "s", number), "a"))
    second._link.start()
    time.sleep(0.5)  # the queue of the process is declared by another thread, over another connection
    second._keeper.start()
    wait_until(lambda: len(others) == 20, lambda: f"all replies: {len(others)} came; {caplog.text}", at_most_s=10)
    assert not heard.messages
    second.close()


def test_an_answer_about_a_guest_goes_to_the_control_process_that_asked(
    broker: Broker, ends: RabbitEnds, heard: Heard
) -> None:
    others: list[Any] = []
    second = RabbitConductorBus(broker.transport(CONTROL), new_uuid(), ends.routes, LocalBus())
    second.serve_conductor(others.append, heard.answer)
    second.start()
    connected(second)

    def answer(message: Any) -> None:
        ends.tell(ConsoleOutput(message.question, "node1", "a", message.asker, "words"), urgent=True)

    ends.agent.serve_agent("node1", answer)
    for number in range(10):
        ends.cast("node1", AskConsoleOutput("a", f"ours {number}", ends.process))
        second.cast("node1", AskConsoleOutput("a", f"theirs {number}", second._process))
    wait_until(lambda: len(heard.messages) + len(others) == 20, "all answers come")
    assert {message.question for message in heard.messages} == {f"ours {number}" for number in range(10)}
    assert {message.question for message in others} == {f"theirs {number}" for number in range(10)}
    second.close()


def test_a_question_for_another_session_is_refused_rather_than_waited_for(ends: RabbitEnds, heard: Heard) -> None:
    ends.routes.hosts["node1"] = Route(ends.agent_name, "an earlier session")
    ends.cast("node1", AskConsoleOutput("a", "q", ends.process))
    wait_until(lambda: heard.messages, "it is refused")
    (refusal,) = heard.messages
    assert isinstance(refusal, QuestionRefused)
    assert (refusal.question, refusal.host, refusal.instance_uuid) == ("q", "node1", "a")


def test_an_agent_of_an_older_release_is_not_sent_what_it_does_not_know(ends: RabbitEnds) -> None:
    came: list[Any] = []
    ends.agent.serve_agent("node1", came.append)
    ends.routes.hosts["node1"] = Route(ends.agent_name, ends.session, version=3)
    with pytest.raises(AgentTooOld):
        ends.cast("node1", PauseGuest(STEP, "a"))
    ends.cast("node1", StopGuest(STEP, "a"))
    wait_until(lambda: came, "what it knows comes")
    assert came == [StopGuest(STEP, "a")]


def test_what_is_meant_for_another_session_is_dropped_and_asked_for_again(ends: RabbitEnds, heard: Heard) -> None:
    accepted: list[Any] = []
    ends.agent.serve_agent("node1", accepted.append)
    ends.routes.hosts["node1"] = Route(ends.agent_name, "an earlier session")
    ends.cast("node1", StopGuest(STEP, "a"))
    ends.cast("node1", AskStep(STEP, "b"))
    unknown = [StepStatus(STEP, "node1", uuid, StepState.UNKNOWN) for uuid in "ab"]
    wait_until(lambda: len(heard.messages) == 2, "the conductor is told")
    assert sorted(heard.messages, key=str) == unknown
    assert not accepted


def test_what_comes_before_a_host_is_served_waits_for_it(ends: RabbitEnds) -> None:
    accepted: list[str] = []
    ends.routes.hosts["node2"] = Route(ends.agent_name, ends.session)
    ends.cast("node2", StopGuest(STEP, "early"))
    ends.cast("node1", StopGuest(STEP, "marker"))
    ends.agent.serve_agent("node1", lambda message: accepted.append(message.instance_uuid))
    ends.cast("node1", StopGuest(STEP, "marker"))
    wait_until(lambda: accepted, "what came later is there")
    ends.agent.serve_agent("node2", lambda message: accepted.append(message.instance_uuid))
    assert accepted[-1] == "early"


def test_a_flood_of_one_agent_holds_nobody_up(broker: Broker, ends: RabbitEnds) -> None:
    name = broker.new_agent()
    ends.routes.agents.add(name)
    ends.routes.allowed = lambda agent, host: True
    came: dict[str, int] = {"flood": 0, "honest": 0}

    def handle(message: Any) -> None:
        time.sleep(0.001)
        came["honest" if message.instance_uuid == "honest" else "flood"] += 1

    ends.serve_conductor(handle, lambda *_: None)
    honest = RabbitAgentBus(name, broker.transport(name), new_uuid)
    honest.start()
    ends.conductor.agents_changed()
    connected(honest)
    connected(ends.conductor)
    flood = encode(Envelope(reply(uuid="flood")))

    def pour(channel: Any) -> None:
        for _ in range(9000):
            message = amqp.Message(flood, user_id=ends.agent_name)
            channel._basic_publish(message, from_agent(ends.agent_name))

    threading.Thread(target=Hand(broker, ends.agent_name).try_to, args=(pour,), daemon=True).start()
    wait_until(lambda: came["flood"] > 200, "the flood has come")
    slowest = 0.0
    for number in range(10):
        began = time.monotonic()
        honest.tell(reply(uuid="honest"))
        wait_until(lambda number=number: came["honest"] > number, "the honest one is heard", every_s=0.001)
        slowest = max(slowest, time.monotonic() - began)
    assert came["flood"] < 9000, "the flood was over before"
    assert slowest < 1.0
    honest.close()


def test_a_message_over_which_readers_die_does_not_come_for_ever(ends: RabbitEnds, broker: Broker) -> None:
    agent = ends.agent_name
    ends.close()
    queue = from_agent(agent)
    with _connection(broker, agent) as writer, _connection(broker, CONTROL) as reader:
        writer.channel().basic_publish(amqp.Message(b"poison"), queue, "")
        channel = reader.channel()
        wait_until(lambda: channel.queue_declare(queue, passive=True).message_count == 1, "it is there", at_most_s=10)
        given = 0
        while given < 10 * DELIVERED_AT_MOST and (found := channel.basic_get(queue)) is not None:
            given += 1
            channel.basic_reject(found.delivery_tag, requeue=True)  # as the broker does when its reader dies
        assert 1 < given <= DELIVERED_AT_MOST + 1


def test_a_message_of_any_size_is_not_read(ends: RabbitEnds, caplog: pytest.LogCaptureFixture) -> None:
    huge = Delivery(b" " * (64 * 2**20 + 1), from_agent(ends.agent_name), ends.agent_name, 0, 0)
    with caplog.at_level(logging.WARNING):
        ends.conductor._hear(ends.agent_name, huge)
    assert "The message has 67108865 bytes, more than 67108864" in caplog.text


def _connection(broker: Broker, user: str) -> amqp.Connection:
    address = broker.transport(user).url.brokers[0]
    connection = amqp.Connection(f"127.0.0.1:{address.port}", address.user, address.password or "")
    connection.connect()
    return connection
