# SPDX-License-Identifier: Apache-2.0
"""Queues, exchanges and permissions in the broker."""

import pytest

from kilonova.identifiers import new_uuid
from kilonova.messaging.local import LocalBus
from kilonova.messaging.rabbit.conductor_end import RabbitConductorBus
from kilonova.messaging.rabbit.topology import from_agent, to_agent, to_control
from support.broker import RESTRICTED, Broker
from support.rabbit_clients import Hand, Heard, reply
from support.rabbit_ends import RabbitEnds
from support.waiting import wait_until


def test_what_an_agent_may_not_do_in_the_broker(broker: Broker, ends: RabbitEnds, heard: Heard) -> None:
    other = RabbitEnds(broker)
    hand, mine, theirs = Hand(broker, ends.agent_name), ends.agent_name, other.agent_name
    refused = {
        "read": lambda channel: channel.basic_get(to_agent(theirs)),
        "read what agents say": lambda channel: channel.basic_get(from_agent(mine)),
        "purge": lambda channel: channel.queue_purge(to_agent(theirs)),
        "delete": lambda channel: channel.queue_delete(to_agent(theirs)),
        "delete its own": lambda channel: channel.queue_delete(to_agent(mine)),
        "declare": lambda channel: channel.queue_declare("mine"),
        "bind": lambda channel: channel.queue_bind(to_agent(mine), "to", theirs),
        "bind to others": lambda channel: channel.queue_bind(to_agent(mine), from_agent(theirs)),
        "delete an exchange": lambda channel: channel.exchange_delete("to"),
    }
    for what, do in refused.items():
        assert "ACCESS_REFUSED" in hand.try_to(do), what
    assert "ACCESS_REFUSED" in hand.publish(from_agent(theirs), reply())
    assert "ACCESS_REFUSED" in hand.publish("to", reply(), theirs)
    assert "ACCESS_REFUSED" in hand.publish("", reply(), from_agent(theirs))
    assert "ACCESS_REFUSED" in hand.publish("", reply(), to_control(ends.process))
    assert "PRECONDITION_FAILED" in hand.publish(from_agent(mine), reply(), user_id=theirs)
    everywhere = {"CC": [from_agent(theirs), to_agent(theirs), to_control(ends.process)]}
    assert hand.publish(from_agent(mine), reply(), application_headers=everywhere) == ""
    hand.publish(from_agent(mine), reply(uuid="last"), user_id=mine)
    wait_until(lambda: heard.messages, "the last one is heard")
    assert heard.messages == [reply(uuid="last")]
    other.close()


def test_queues_that_an_operator_has_made(
    broker: Broker, ends: RabbitEnds, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    ends.conductor.close()
    missing = broker.new_agent()
    ends.routes.agents.add(missing)
    bus = RabbitConductorBus(broker.transport(RESTRICTED), new_uuid(), ends.routes, LocalBus())
    bus.serve_conductor(heard.handle, heard.answer)
    bus.start()
    ends.tell(reply())
    wait_until(lambda: heard.messages, "the agent with queues is heard")
    wait_until(lambda: f"agent {missing} cannot be heard" in caplog.text, "it is said who has none")
    bus.close()
