# SPDX-License-Identifier: Apache-2.0
"""Servers on hosts whose agents are processes of their own: PostgreSQL, RabbitMQ, real processes that are killed."""

import signal
import time
from collections.abc import Callable

import pytest

from agents.cloud import AgentCloud
from kilonova.cli.main import main
from kilonova.db import instances
from kilonova.model.instance import PowerState, VmState
from support.waiting import wait_until
from support.world import power_states_on_disk

pytestmark = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
NewCloud = Callable[..., AgentCloud]


def test_the_life_of_a_server_between_two_agent_processes(agent_cloud: NewCloud) -> None:
    cloud = agent_cloud(("east",), ("west",))
    server = cloud.control.boot(availability_zone=None)
    uuid, first = server["id"], server["OS-EXT-SRV-ATTR:host"]
    assert server["status"] == "ACTIVE"
    assert cloud.act(uuid, {"reboot": {"type": "HARD"}})["status"] == "ACTIVE"
    assert cloud.act(uuid, {"os-stop": None})["status"] == "SHUTOFF"
    assert cloud.act(uuid, {"os-start": None})["status"] == "ACTIVE"
    resized = cloud.act(uuid, {"resize": {"flavorRef": "2"}})
    assert resized["status"] == "VERIFY_RESIZE"
    second = resized["OS-EXT-SRV-ATTR:host"]
    assert {first, second} == {"east", "west"}
    assert cloud.act(uuid, {"confirmResize": None}, status=204)["status"] == "ACTIVE"
    moved = cloud.act(uuid, {"os-migrateLive": {"host": first, "block_migration": "auto"}})
    assert (moved["status"], moved["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", first)
    assert cloud.check() == {uuid: VmState.ACTIVE}
    assert cloud.control.admin.delete(f"/servers/{uuid}").status == 204
    assert cloud.check() == {}


@pytest.mark.slow
def test_an_agent_that_is_killed_while_it_builds_and_starts_again(agent_cloud: NewCloud) -> None:
    cloud = agent_cloud(("east",), ("west",), hosts="vcpus: 32, memory_mib: 65536, spawn_delay_s: 0.5")
    asked = [cloud.control.ask(name=f"vm{number}") for number in range(12)]
    assert {answer.status for answer in asked} == {202}
    killed = cloud.agents[0]
    killed.kill()
    killed.start()
    states = cloud.check()
    assert len(states) == 12
    assert set(states.values()) <= {VmState.ACTIVE, VmState.ERROR}
    assert list(states.values()).count(VmState.ACTIVE) >= 6


@pytest.mark.slow
def test_an_agent_that_is_stopped_for_longer_than_its_lease_goes_on_in_a_new_session(agent_cloud: NewCloud) -> None:
    cloud = agent_cloud(
        ("east",),
        ("west",),
        hosts="vcpus: 32, memory_mib: 65536, spawn_delay_s: 0.3",
        more="[DEFAULT]\nservice_down_time = 10\n",  # builds on the frozen one are given up when it counts as down
    )
    running = cloud.control.boot()
    frozen = next(
        agent
        for agent, host in zip(cloud.agents, ("east", "west"), strict=True)
        if host == running["OS-EXT-SRV-ATTR:host"]
    )
    for number in range(8):
        assert cloud.control.ask(name=f"vm{number}").status == 202
    frozen.freeze()
    assert cloud.control.admin.delete(f"/servers/{running['id']}").status == 204
    cloud.settle()  # with what the other agent has, and without the frozen one
    frozen.thaw()
    frozen.until_told("Session .* begins", times=2)
    states = cloud.check_soon()
    assert running["id"] not in states
    assert set(states.values()) <= {VmState.ACTIVE, VmState.ERROR}


def test_an_agent_that_is_told_to_end_ends_in_order_and_says_so(agent_cloud: NewCloud) -> None:
    cloud = agent_cloud(("east",))
    assert cloud.control.boot()["status"] == "ACTIVE"
    agent = cloud.agents[0]
    assert agent.kill(signal.SIGTERM) == 0
    assert agent.has_told("Stopping the agents of 1 hosts")
    agent.start()
    agent.until_told("Session .* begins", times=2)
    assert cloud.control.boot()["status"] == "ACTIVE"
    assert len(cloud.check()) == 2


def test_the_broker_may_go_away_for_a_while(agent_cloud: NewCloud, broker: object) -> None:
    del broker
    cloud = agent_cloud(("east",), ("west",))
    first = cloud.control.boot()
    with cloud.broker.frozen():
        asked = cloud.control.ask(name="meanwhile")
        assert asked.status == 202
    cloud.until(asked.body["server"]["id"], "ACTIVE")
    assert set(cloud.check()) == {first["id"], asked.body["server"]["id"]}


@pytest.mark.slow
def test_what_is_parked_at_an_agent_that_comes_back_is_asked_for_at_once(agent_cloud: NewCloud) -> None:
    """Long before the reply is overdue, and although the agent has forgotten it."""
    cloud = agent_cloud(
        ("east",),
        hosts="vcpus: 32, memory_mib: 65536, spawn_delay_s: 4",
        lease_s=30.0,  # the host counts as served until the agent is back
        more="[DEFAULT]\nrpc_response_timeout = 300\n",
    )
    uuid = cloud.control.ask().body["server"]["id"]
    cloud.agents[0].until_told("Session .* begins")
    cloud.agents[0].kill()
    cloud.agents[0].start().until_told("Session .* begins", times=2)
    cloud.until(uuid, "ACTIVE")
    assert cloud.check() == {uuid: VmState.ACTIVE}


def test_an_agent_that_is_killed_between_shutdown_and_start_of_a_soft_reboot(agent_cloud: NewCloud) -> None:
    """The story of test_init_instance_retries_reboot_pending_soft_became_hard, and what the hypervisor says besides."""
    cloud = agent_cloud(("east",), hosts="vcpus: 16, memory_mib: 32768, start_delay_s: 1.5")
    uuid = cloud.control.boot()["id"]
    agent = cloud.agents[0]

    def guest() -> PowerState:
        return power_states_on_disk(agent.hypervisors).get(uuid, PowerState.NOSTATE)

    def task() -> str | None:
        shown: str | None = cloud.show(uuid)["OS-EXT-STS:task_state"]
        return shown

    assert cloud.control.admin.post(f"/servers/{uuid}/action", {"reboot": {"type": "SOFT"}}).status == 202
    wait_until(lambda: (task(), guest()) == ("reboot_started", PowerState.SHUTDOWN), "the guest is off for a moment")
    agent.kill()
    assert (cloud.show(uuid)["status"], task()) == ("REBOOT", "reboot_started")
    agent.start()
    seen: list[str | None] = [task()]
    until = time.monotonic() + 60
    while seen[-1] is not None and time.monotonic() < until:
        with cloud.control.process.database.read() as connection:  # some tasks are there for a few milliseconds only
            now = instances.get(connection, uuid).task_state
        if now != seen[-1]:
            seen.append(now)
        time.sleep(0.001)
    assert seen == ["reboot_started", "reboot_pending_hard", "reboot_started_hard", None]
    assert cloud.check() == {uuid: VmState.ACTIVE}

    def simulate(what: str) -> None:
        assert main(["simulate", what, "east", uuid, "--state-dir", str(agent.hypervisors)]) == 0

    simulate("stop")
    cloud.until(uuid, "SHUTOFF")
    assert cloud.act(uuid, {"os-start": None})["status"] == "ACTIVE"
    simulate("pause")
    wait_until(lambda: cloud.show(uuid)["OS-EXT-STS:power_state"] == PowerState.PAUSED, "it is seen to be paused")
    simulate("remove")
    wait_until(lambda: cloud.show(uuid)["OS-EXT-STS:power_state"] == PowerState.NOSTATE, "it is seen to be gone")
    assert cloud.act(uuid, {"reboot": {"type": "HARD"}})["status"] == "ACTIVE"
    assert guest() is PowerState.RUNNING
    assert cloud.check() == {uuid: VmState.ACTIVE}


def test_any_control_process_reaches_any_agent(agent_cloud: NewCloud) -> None:
    """Each sends by itself, and gets the replies to what it has sent, whoever of them hears these."""
    cloud = agent_cloud(("east",), ("west",))
    other = cloud.start_control()
    asked = [each.ask(name=f"vm{number}") for number, each in enumerate((cloud.control, other) * 4)]
    assert {answer.status for answer in asked} == {202}
    assert set(cloud.check().values()) == {VmState.ACTIVE}
    for number, answer in enumerate(asked):
        deleter = (other, cloud.control)[number % 2]
        assert deleter.admin.delete(f"/servers/{answer.body['server']['id']}").status == 204
    assert cloud.check() == {}
