# SPDX-License-Identifier: Apache-2.0
"""What somebody can do with the account of one agent to other hosts, to servers there and to the cloud: nothing.

A real broker, a real control process, a real agent process with the victims. Each attempt has an account of its own.
"""

import itertools
import logging
import re
import threading
import time
from collections.abc import Iterator

import psutil
import pytest
import sqlalchemy as sa

from agents.attempts import AT_CONTROL, AT_THE_BROKER, Dropped, Refused, asked
from agents.cloud import AgentCloud
from agents.hostile import MARKER, Attacker, Victim, rows
from kilonova.db import enrolment, instance_networks
from kilonova.db.core import tables as t
from kilonova.identifiers import new_uuid
from kilonova.messaging.bus import Sender
from kilonova.messaging.codec import Envelope
from kilonova.messaging.messages import AskMetadata, GuestMetadata, Heartbeat, HostsStarted, StepId
from kilonova.model.network_info import FixedAddress, Vif, VifNetwork, VifSubnet
from support.broker import Broker
from support.database_servers import DatabaseServer
from support.waiting import wait_until

HOSTS = ("east", "west")
#: How long a move takes at the victim: longer than all attempts.
MOVE_S = 600
_numbers = itertools.count()


@pytest.fixture(scope="module")
def cloud(
    broker: Broker, database_servers: dict[str, DatabaseServer], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AgentCloud]:
    server = database_servers["postgresql"]
    name = f"hostile_{next(_numbers)}"
    server.copy("kilonova_template", name)
    shape = f"vcpus: 16, memory_mib: 32768, move_delay_s: {MOVE_S}"
    made = AgentCloud(tmp_path_factory.mktemp("hostile"), server.url(name), broker, [HOSTS], hosts=shape, lease_s=30)
    yield made.start()
    made.stop()
    server.drop(name)


@pytest.fixture(scope="module")
def victim(cloud: AgentCloud) -> Victim:
    """Two servers, one of which is being moved, and will be for as long as the tests take."""
    control = cloud.control
    server, moving = control.boot(name="server"), control.boot(name="moving")
    assert control.admin.post(f"/servers/{moving['id']}/action", {"migrate": None}).status == 202
    flows = sa.select(t.workflows).where(t.workflows.c.instance_uuid == moving["id"])

    def step() -> StepId | None:
        with control.process.database.read() as connection:
            row = connection.execute(flows).one()
        waits = control.process.conductor.runner.waits_for_agents
        return StepId(row.uuid, row.step, row.attempt) if waits else None

    wait_until(step, "the move waits for its agent")
    found = step()
    assert found is not None
    with control.process.database.read() as connection:
        session = connection.execute(sa.select(t.host_agents.c.process).where(t.host_agents.c.host == "east")).scalar()
    host = moving["OS-EXT-SRV-ATTR:host"]
    victim = Victim(cloud.names[0], host, str(session), server["id"], moving["id"], found)
    control.process.database.write(lambda tx: instance_networks.store_info(tx, server["id"], (interface(victim),)))
    return victim


def interface(victim: Victim) -> Vif:
    network, address, mac = victim.guest
    subnet = VifSubnet(id="sub", cidr="10.1.0.0/24", version=4, addresses=(FixedAddress(address),))
    return Vif(port_id="port", mac=mac, network=VifNetwork(id=network, label="n"), subnets=(subnet,))


@pytest.fixture
def attacker(cloud: AgentCloud, victim: Victim) -> Iterator[Attacker]:
    made = Attacker(cloud, victim)
    yield made
    made.close()


@pytest.mark.parametrize("attempt", AT_THE_BROKER, ids=lambda attempt: attempt.name)
def test_the_broker_refuses_and_says_who_it_was(cloud: AgentCloud, attacker: Attacker, attempt: Refused) -> None:
    before = rows(cloud)
    said = attacker.refused(lambda channel: attempt.do(attacker, channel))
    assert re.search(attempt.says, said), said
    assert rows(cloud) == before
    logs = list((cloud.broker.folder / "log").glob("*.log"))
    wait_until(lambda: any(attacker.name in log.read_text() for log in logs), "the broker has logged it")


@pytest.mark.parametrize("attempt", AT_CONTROL, ids=lambda attempt: attempt.name)
def test_what_arrives_has_no_effect_and_is_logged(
    cloud: AgentCloud, attacker: Attacker, attempt: Dropped, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    if "over" in attempt.name:
        attacker.prepare()
    before = rows(cloud)
    attempt.do(attacker)
    said = attempt.log or re.escape(MARKER)
    attacker.mark()
    try:
        wait_until(lambda: re.search(said, caplog.text), f"the log says {said}")
        wait_until(lambda: MARKER in caplog.text, "all was read")
    finally:
        settle(cloud)
    assert rows(cloud) == before
    assert not any("\n" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("attempt", AT_CONTROL[:6], ids=lambda attempt: attempt.name)
def test_what_is_tried_again_and_again_is_one_line(
    cloud: AgentCloud, attacker: Attacker, attempt: Dropped, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(10):
        attempt.do(attacker)
    attacker.mark()
    wait_until(lambda: MARKER in caplog.text, "all was read")
    assert sum(attacker.name in record.getMessage() for record in caplog.records) == 2  # with the marker


def test_the_metadata_of_a_guest_go_to_the_agent_of_its_host_only(cloud: AgentCloud, attacker: Attacker) -> None:
    victim = attacker.victim
    with cloud.control.process.database.read() as connection:
        host = connection.execute(sa.select(t.instances.c.host).where(t.instances.c.uuid == victim.server)).scalar()
    answer = cloud.control.process.conductor.answer(AskMetadata(str(host), *victim.guest), Sender(victim.agent))
    assert isinstance(answer, GuestMetadata)
    assert answer.found
    attacker.publish(asked(AskMetadata(str(host), *victim.guest)))
    attacker.publish(asked(AskMetadata(attacker.host, *victim.guest)))
    got: list[Envelope] = []
    wait_until(lambda: got.extend(attacker.answers()) or got, "an answer")
    settle(cloud)
    assert [each.message for each in (*got, *attacker.answers())] == [GuestMetadata(found=False)]


def test_a_revoked_agent_is_not_heard_and_its_session_ends(
    cloud: AgentCloud, attacker: Attacker, caplog: pytest.LogCaptureFixture
) -> None:
    attacker.begin()
    database = cloud.control.process.database
    database.write(lambda tx: enrolment.revoke(tx, attacker.name))
    wait_until(lambda: f"Messages of revoked agents are refused: {attacker.name}" in caplog.text, "it is noticed")
    leases = sa.select(t.processes.c.lease_until).where(t.processes.c.agent == attacker.name)

    def has_ended() -> bool:
        with database.read() as connection:
            (until,) = connection.execute(leases).scalars()
            return bool(until <= database.clock.now())

    wait_until(has_ended, "its session is over", at_most_s=5)
    before = rows(cloud)
    attacker.publish(asked(HostsStarted((attacker.report(),), session=new_uuid())))
    attacker.publish(asked(Heartbeat((attacker.host,), attacker.victim.session)))
    settle(cloud)
    assert rows(cloud) == before


def test_what_an_agent_has_leads_to_the_broker_and_nowhere_else(cloud: AgentCloud) -> None:
    (agent,) = cloud.agents
    assert agent.process is not None
    process = psutil.Process(agent.process.pid)
    places = {(each.raddr.ip, each.raddr.port) for each in process.net_connections() if each.raddr}
    assert places == {("127.0.0.1", cloud.broker.server.port)}
    url = cloud.control.process.database.url.render_as_string(hide_password=False)
    seen = [agent.config.read_text(), agent.log.read_text()]
    assert not [text for text in seen if url in text or "keystone" in text.lower()]


def settle(cloud: AgentCloud) -> None:
    """Wait until all that has come is handled."""
    bus = cloud.control.process.core.bus
    wait_until(lambda: not any(bus.waiting.values()), "nothing waits")


def test_a_flood_of_questions_holds_nobody_up(cloud: AgentCloud, attacker: Attacker) -> None:
    """What an agent reports is written by one thread for each message."""
    session = attacker.begin()
    question = asked(HostsStarted((attacker.report(),), session=session))
    honest, over = Attacker(cloud, attacker.victim), threading.Event()

    def flood() -> None:
        while not over.is_set():
            attacker.publish_quickly(question)

    flooding = threading.Thread(target=flood)
    flooding.start()
    try:
        wait_until(lambda: cloud.control.process.core.bus.waiting["conductor blocking"], "the flood is there")
        began = time.monotonic()
        honest.begin()
        assert time.monotonic() - began < 5.0
    finally:
        over.set()
        flooding.join()
    honest.close()


def test_a_flood_of_heartbeats_occupies_no_thread(cloud: AgentCloud, attacker: Attacker) -> None:
    """Each is written with others up to a second later, and none waits for that."""
    session = attacker.begin()
    for number in range(300):
        attacker.publish_quickly(asked(Heartbeat((attacker.host,), session, number)))
    honest = Attacker(cloud, attacker.victim)
    began = time.monotonic()
    honest.begin()
    assert time.monotonic() - began < 5.0
    wait_until(lambda: not cloud.control.process.core.bus.waiting["conductor blocking"], "nothing waits")
    honest.close()
