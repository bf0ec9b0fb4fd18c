# SPDX-License-Identifier: Apache-2.0
"""The bus over TLS: who shows a certificate needs no password, and nobody talks to a broker that is another one."""

import re
from pathlib import Path

import pytest

from kilonova.identifiers import new_uuid
from kilonova.messaging.messages import HostsRegistered, StepId, StepReply, StopGuest
from kilonova.messaging.rabbit.agent_end import RabbitAgentBus
from kilonova.messaging.rabbit.transport_url import Tls, Transport
from support.broker import CONTROL, Broker
from support.certificates import Authority
from support.rabbit_ends import RabbitEnds
from support.waiting import wait_until


def test_an_agent_with_a_certificate_and_a_control_process_with_a_password(broker: Broker) -> None:
    def transport(user: str) -> Transport:
        if user == CONTROL:
            return broker.tls_transport(user, Tls(broker.authority.ca_file))
        own = broker.authority.certify(user)
        return broker.tls_transport(user, Tls(broker.authority.ca_file, own.cert_file, own.key_file))

    ends, replies = RabbitEnds(broker, transport=transport), []
    ends.serve_conductor(replies.append, lambda *_: HostsRegistered())
    ends.serve_agent("node1", lambda message: ends.tell(StepReply(message.step, "node1", "x" * 300_000)))
    for number in range(50):
        ends.cast("node1", StopGuest(StepId("w", "s", number), "a"))
    wait_until(lambda: len(replies) == 50, "all replies come")
    assert [reply.step.attempt for reply in replies] == list(range(50))
    ends.close()


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ("authority", "certificate verify failed"),
        ("host", "certificate verify failed: (IP address|Hostname) mismatch"),
        ("user", "ACCESS_REFUSED"),
    ],
)
def test_whoever_is_not_who_they_say(
    broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture, wrong: str, what: str
) -> None:
    user = broker.new_agent()
    trusted = Authority(tmp_path) if wrong == "authority" else broker.authority
    own = broker.authority.certify("other-user" if wrong == "user" else user)
    tls = Tls(trusted.ca_file, own.cert_file, own.key_file)
    tls.check()
    host = "127.0.0.1" if wrong == "host" else "localhost"
    bus = RabbitAgentBus(user, broker.tls_transport(user, tls, host=host), new_uuid)
    bus.start()
    wait_until(lambda: f"agent {user}: no connection" in caplog.text, "it is refused")
    assert not bus.is_connected
    bus.close()
    assert re.search(what, caplog.text)
