# SPDX-License-Identifier: Apache-2.0
"""How control processes and agents in processes of their own live together, message by message (ADR 20)."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest
import sqlalchemy as sa

from kilonova.conductor.workflow_engine.process_lease import ProcessLease
from kilonova.conductor.workflow_engine.run import AGENT_TOO_OLD
from kilonova.db import agent_sessions, enrolment, host_agents, instance_actions, upgrade_state
from kilonova.db.core import tables as t
from kilonova.db.host_agents import Process
from kilonova.errors import AgentTooOld, Forbidden
from kilonova.identifiers import new_uuid
from kilonova.lease import Lease
from kilonova.messaging.bus import Sender
from kilonova.messaging.codec import OLDEST
from kilonova.messaging.messages import (
    AskGuests,
    AskStep,
    Heartbeat,
    HostsStarted,
    SpawnGuest,
    StepId,
    StepReply,
    SuspendGuest,
)
from kilonova.model.instance import PowerState, VmState
from support.cell import Cell
from support.remote_agents import OVER, AgentProcess, World

pytestmark = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
T = TypeVar("T")


@pytest.fixture
def world(database_url: str, tmp_path: Path) -> Iterator[World]:
    made = World(database_url, tmp_path)
    yield made
    made.close()


@pytest.fixture
def one(world: World) -> Cell:
    return world.control()


@pytest.fixture
def agent(world: World, one: Cell) -> AgentProcess:
    """The agent of ``node``, in its first session."""
    made = world.agent("agent", "node")
    world.look(one)
    return made.begin()


def sent(cell: Cell, kind: type[T]) -> list[T]:
    return [message for message in cell.bus.sent if isinstance(message, kind)]


def test_servers_are_built_on_hosts_beyond_the_process(world: World, one: Cell, agent: AgentProcess) -> None:
    (uuid,) = one.boot()
    world.run(one)
    assert agent.driver.list_guests() == {uuid: PowerState.RUNNING}
    one.delete(uuid)
    world.run(one)
    assert world.check(one) == {}


def test_an_agent_of_an_older_release_is_asked_for_nothing_that_it_does_not_know(world: World, one: Cell) -> None:
    old = world.agent("agent", "node", version=3)
    world.look(one)
    old.begin()
    (uuid,) = one.boot()
    world.run(one)
    one.power(uuid, "suspend")
    world.run(one)
    assert not sent(one, SuspendGuest)
    server = one.instance(uuid)
    assert (server.vm_state, server.task_state, server.power_state) == (VmState.ACTIVE, None, PowerState.RUNNING)
    with one.database.read() as connection:
        (event,) = instance_actions.events(connection, uuid, "req-suspend")
        action = instance_actions.find(connection, uuid, "req-suspend")
    assert (event.result, event.details) == ("Error", AGENT_TOO_OLD)
    assert "The agent of host node has message version 3, and SuspendGuest needs a later one" in str(event)
    assert action is not None
    assert action.message == "Error"
    one.power(uuid, "stop")
    world.run(one)
    assert old.driver.list_guests() == {uuid: PowerState.SHUTDOWN}
    old.kill()
    new = AgentProcess(world, "agent", "node").begin()
    world.look(one)
    one.power(uuid, "start")
    world.run(one)
    one.power(uuid, "suspend")
    world.run(one)
    assert new.driver.list_guests() == {uuid: PowerState.SUSPENDED}


def test_an_agent_that_is_two_releases_old_is_refused_and_told_why(world: World, one: Cell) -> None:
    old = world.agent("agent", "node", version=OLDEST - 1)
    world.look(one)
    with pytest.raises(AgentTooOld, match=f"Agent agent runs release .* version {OLDEST - 1} .* has to be upgraded"):
        old.begin()
    with one.database.read() as connection:
        assert agent_sessions.with_lease(connection, one.database.clock.now()) == ()
        assert upgrade_state.old_agents(connection, OLDEST) == ()
    one.boot()
    world.run(one)
    assert not sent(one, SpawnGuest)


def test_a_session_of_an_agent_ends_when_the_control_side_has_become_two_releases_newer(
    world: World, one: Cell, agent: AgentProcess
) -> None:
    agent.bus._version = OLDEST - 1
    with pytest.raises(AgentTooOld, match="has to be upgraded"):
        agent.sessions.turn()


def test_a_process_that_has_not_heard_of_an_agent_asks_the_database_before_it_gives_up(
    world: World, one: Cell, agent: AgentProcess
) -> None:
    other = world.control()
    agent.kill()
    AgentProcess(world, "agent", "node").begin()  # registered by the other process
    assert one.conductor.directory is not None
    one.conductor.directory._routes.clear()
    (uuid,) = one.boot()
    world.run(one, other)
    assert world.check(one) == {uuid: VmState.ACTIVE}


def test_a_guest_that_a_late_reply_tells_of_is_asked_for_where_its_agent_is_by_now(
    world: World, one: Cell, agent: AgentProcess
) -> None:
    """Another control process has registered the agent, and this one has not looked since."""
    agent.kill()
    other = world.control()
    AgentProcess(world, "agent", "node").begin()
    assert one.conductor.directory is not None
    one.conductor.directory._routes.clear()
    stray = new_uuid()
    one.conductor.handle(StepReply(StepId("gone", "spawn", 1), "node", stray, power_state=PowerState.RUNNING))
    world.run(one, other)
    assert [message.instance_uuids for message in sent(one, AskGuests)] == [(stray,)]


def test_who_counts_as_dead_takes_nothing_over(world: World, one: Cell, agent: AgentProcess) -> None:
    """Two control processes that both have lost their lease would take the same work from each other without end."""
    other = world.control()
    (uuid,) = one.boot()
    world.pass_time(OVER)
    assert other.conductor.process_lease.resume() == 0
    assert one.conductor.process_lease.resume() == 0
    agent.sessions.turn()
    other.renew_leases()
    world.look(other)
    world.run(other)
    assert world.check(other) == {uuid: VmState.ACTIVE}


@pytest.mark.parametrize("waits", ["for all agents", "for a lease"])
def test_a_process_that_starts_waits_for_agents_before_it_takes_up_what_others_left(
    world: World, one: Cell, waits: str
) -> None:
    """Else what a cloud that was stopped as a whole has left unfinished would find no host."""
    heir = world.control()
    one.boot()
    world.pass_time(OVER)
    has_all, now = [False], [0.0]
    process_lease = ProcessLease(
        heir.database,
        heir.conductor.runner,
        Process("starting"),
        Lease(host_agents.LEASE, clock=world.seconds),
        lambda: has_all[0],
        lambda: now[0],
    )

    def owners() -> set[str]:
        with heir.database.read() as connection:
            return set(connection.execute(sa.select(t.workflows.c.owner)).scalars())

    assert process_lease.enter(lambda: None) == 0
    process_lease.resume_later()
    assert owners() == {one.conductor.owner}
    has_all[0] = waits == "for all agents"
    now[0] = 0.0 if has_all[0] else host_agents.LEASE.total_seconds() + 1
    process_lease.resume_later()
    assert owners() == {"starting"}


def test_no_workflow_is_handed_over_to_a_session(world: World, one: Cell, agent: AgentProcess) -> None:
    other = world.control()
    (uuid,) = other.boot()
    owners = sa.select(t.workflows.c.owner)
    while other.bus.step():
        with other.database.read() as connection:
            assert set(connection.execute(owners).scalars()) <= {other.conductor.owner}
    world.run(one, other)
    assert agent.driver.list_guests() == {uuid: PowerState.RUNNING}


def test_what_waited_for_an_earlier_session_is_void_and_sent_again_at_once(
    world: World, one: Cell, agent: AgentProcess
) -> None:
    (uuid,) = one.boot()
    one.bus.run()
    agent.kill()
    assert [letter.session for letter in world.broker.to["agent"]]
    again = AgentProcess(world, "agent", "node").begin()
    world.run(one)
    assert again.driver.list_guests() == {uuid: PowerState.RUNNING}
    assert world.check(one) == {uuid: VmState.ACTIVE}


def test_every_process_asks_at_once_about_what_it_sent_to_an_agent_that_has_come_back(
    world: World, one: Cell, agent: AgentProcess
) -> None:
    """The agent had taken the message, and died with it. Another control process hears of its next life."""
    (uuid,) = one.boot()
    one.bus.run()
    world.broker.deliver("agent")
    agent.kill()
    world.control()
    AgentProcess(world, "agent", "node").begin()
    assert sent(one, AskStep) == []
    world.look(one)
    world.run(one)
    assert len(sent(one, AskStep)) == 1
    assert world.check(one) == {uuid: VmState.ACTIVE}


def test_an_order_that_comes_late_from_a_process_that_was_replaced_does_nothing(
    world: World, one: Cell, agent: AgentProcess
) -> None:
    """It was half sent when the process froze; meanwhile its successor has deleted the server."""
    (uuid,) = one.boot()
    one.bus.run()
    (late,) = world.broker.to["agent"]
    world.broker.to["agent"].clear()
    other = world.control()
    world.pass_time(OVER)
    agent.sessions.turn()
    other.renew_leases()
    other.delete(uuid)
    world.look(other)
    world.run(other)
    late.session = world.broker.agents["agent"]._session  # as if the agent had gone on all along
    world.broker.to["agent"].append(late)
    world.broker.deliver("agent")
    world.run(other)
    assert agent.driver.list_guests() == {}
    assert world.check(other) == {}


def test_while_its_lease_has_lapsed_a_process_sends_nothing(world: World, one: Cell, agent: AgentProcess) -> None:
    (uuid,) = one.boot()
    world.pass_time(OVER)
    world.run(one)
    assert world.broker.to["agent"] == []
    assert agent.driver.list_guests() == {}
    agent.sessions.turn()
    one.renew_leases()
    world.look(one)
    world.run(one)
    assert world.check(one) == {uuid: VmState.ACTIVE}


def test_a_host_counts_as_gone_only_when_its_agent_may_not_act_any_more(
    world: World, one: Cell, agent: AgentProcess
) -> None:
    (uuid,) = one.boot()
    world.run(one)
    agent.kill()
    one.delete(uuid)
    one.bus.run()
    world.pass_time(OVER)
    assert not agent.lease.is_held
    one.renew_leases()
    world.look(one)
    one.conductor.runner.ask_overdue()
    world.run(one)
    assert one.find(uuid) is not None, "its agent may be about to come back"
    world.pass_time(OVER)
    one.renew_leases()
    world.notice_silence()
    world.look(one)
    world.run(one)
    assert one.find(uuid) is None
    assert AgentProcess(world, "agent", "node").begin().driver.list_guests() == {}


def test_a_host_that_counts_as_up_is_waited_for_however_long_nobody_could_be_heard(
    world: World, one: Cell, agent: AgentProcess
) -> None:
    """The broker was away, say: its silence means nothing, and a server that is to be built there is not given up."""
    (uuid,) = one.boot()
    one.bus.run()
    world.broker.is_down = True
    for _ in range(10):
        world.pass_time(OVER)
        one.renew_leases()
        world.look(one)
        one.conductor.runner.ask_hosts(["node"])
        one.conductor.runner.ask_overdue()
        one.bus.run()
    later = world.control()
    (asked_meanwhile,) = later.boot()
    later.bus.run()
    world.broker.is_down = False
    agent.sessions.turn()
    world.look(one, later)
    world.run(one, later)
    assert world.check(one) == {uuid: VmState.ACTIVE, asked_meanwhile: VmState.ACTIVE}


def test_the_broker_is_away_for_longer_than_the_lease(world: World, one: Cell, agent: AgentProcess) -> None:
    (uuid,) = one.boot()
    world.run(one)
    world.broker.is_down = True
    world.pass_time(OVER)
    one.delete(uuid)
    one.bus.run()
    world.broker.is_down = False
    agent.sessions.turn()
    one.renew_leases()
    world.look(one)
    world.run(one)
    assert world.check(one) == {}


@pytest.mark.parametrize("whose", ["another agent's", "a control process"])
def test_an_agent_cannot_take_a_session_that_is_not_its_own(
    world: World, one: Cell, agent: AgentProcess, whose: str
) -> None:
    del agent
    world.agent("hostile", "node2")
    world.look(one)
    with one.database.read() as connection:
        (session,) = agent_sessions.with_lease(connection, one.database.clock.now())
    stolen = session.uuid if whose == "another agent's" else one.conductor.owner
    before = _processes(one)
    for question in (HostsStarted((), session=stolen), Heartbeat(session=stolen), HostsStarted(()), Heartbeat()):
        with pytest.raises(Forbidden):
            one.bus.answer(question, Sender("hostile"))
    assert _processes(one) == before


def test_a_heartbeat_counts_for_as_long_as_the_session_does(world: World, one: Cell, agent: AgentProcess) -> None:
    del agent
    with one.database.read() as connection:
        (session,) = agent_sessions.with_lease(connection, one.database.clock.now())
    future = one.conductor.heartbeats.heard(session)
    one.conductor.heartbeats.write()
    assert future.result(0) is True
    world.pass_time(OVER)
    future = one.conductor.heartbeats.heard(session)
    one.conductor.heartbeats.write()
    assert future.result(0) is False


def test_an_agent_that_is_revoked_has_no_session_and_no_host(world: World, one: Cell, agent: AgentProcess) -> None:
    one.database.write(lambda tx: enrolment.revoke(tx, "agent"))
    world.look(one)
    with one.database.read() as connection:
        assert agent_sessions.with_lease(connection, one.database.clock.now()) == ()
    agent.lease.lapse()
    with pytest.raises(Forbidden):
        agent.sessions.turn()
    world.pass_time(OVER)
    one.renew_leases()
    world.look(one)
    assert one.conductor.directory is not None
    assert one.conductor.directory.of("node") is None


def test_what_each_agent_speaks_is_stored(world: World, one: Cell, agent: AgentProcess) -> None:
    del world, agent
    with one.database.read() as connection:
        (found,) = agent_sessions.list_page(connection)
    assert (found.host, found.agent, found.up) == ("node", "agent", True)
    assert found.release_version
    assert found.message_version


def _processes(cell: Cell) -> list[sa.Row[tuple[object, ...]]]:
    with cell.database.read() as connection:
        return list(connection.execute(sa.select(t.processes).order_by(t.processes.c.uuid)))
