# SPDX-License-Identifier: Apache-2.0
"""Servers leave hosts whose agents, in processes of their own, are gone, and whose messages a test carries (ADR 25)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kilonova.db import server_migrations
from kilonova.db.server_migrations import MigrationQuery
from kilonova.errors import Conflict
from kilonova.messaging.messages import RebuildGuest
from kilonova.model.instance import TaskState, VmState
from support.cell import Cell
from support.remote_agents import OVER, AgentProcess, World

pytestmark = pytest.mark.parametrize("kind", ["postgresql", "mariadb"], indirect=True)


@dataclass
class Cloud:
    """One control process, and an agent process for each host."""

    world: World
    control: Cell
    agents: dict[str, AgentProcess]

    def kill(self, host: str) -> None:
        self.agents[host].kill()

    def begin(self, host: str) -> None:
        """Start the agent of a host once more."""
        self.agents[host] = AgentProcess(self.world, f"agent of {host}", host).begin()
        self.world.look(self.control)

    def count_silent_as_down(self) -> None:
        """Let so much time pass that a process of which nothing is heard counts as down; the others are heard of."""
        for _ in range(2):
            self.world.pass_time(OVER)
            self.control.renew_leases()
            for agent in self.agents.values():
                if agent.bus in self.world.broker.agents.values():
                    agent.sessions.turn()
        self.world.notice_silence()
        self.world.look(self.control)

    def run(self) -> None:
        self.world.run(self.control)

    def having(self, uuid: str) -> list[str]:
        return sorted(host for host, agent in self.agents.items() if uuid in agent.driver.list_guests())

    def migrations(self, uuid: str) -> list[tuple[str, str, str | None]]:
        """(status, source, destination) of each, newest first."""
        with self.control.database.read() as connection:
            found = server_migrations.list_page(connection, MigrationQuery(instance_uuid=uuid))
        return [(each.status.value, each.source_host, each.dest_host) for each in found]


@pytest.fixture
def cloud(database_url: str, tmp_path: Path) -> Iterator[Callable[..., Cloud]]:
    """Starts a cloud with the hosts that are named."""
    worlds: list[World] = []

    def start(*hosts: str) -> Cloud:
        worlds.append(World(database_url, tmp_path))
        control = worlds[-1].control()
        started = Cloud(worlds[-1], control, {host: worlds[-1].agent(f"agent of {host}", host) for host in hosts})
        worlds[-1].look(control)
        for agent in started.agents.values():
            agent.begin()
        worlds[-1].look(control)
        return started

    yield start
    for world in worlds:
        world.close()


def test_a_host_whose_agent_is_gone_is_left_and_cleans_up_when_it_is_back(cloud: Callable[..., Cloud]) -> None:
    here = cloud("node1", "node2")
    (uuid,) = here.control.boot(force_host="node1")
    here.run()
    here.kill("node1")
    here.count_silent_as_down()
    here.control.evacuate(uuid)
    here.run()
    assert here.control.instance(uuid).host == "node2"
    assert here.migrations(uuid) == [("done", "node1", "node2")]
    here.begin("node1")
    here.run()
    assert here.having(uuid) == ["node2"]
    assert here.migrations(uuid) == [("completed", "node1", "node2")]
    assert here.world.check(here.control) == {uuid: VmState.ACTIVE}


def test_a_destination_that_hangs_is_left_once_its_agent_is_stopped(cloud: Callable[..., Cloud]) -> None:
    """While the agent of the destination lives, it may be at work. Once it is gone, the evacuation waits for it."""
    here = cloud("node1", "node2", "node3")
    (uuid,) = here.control.boot(force_host="node1")
    here.run()
    here.kill("node1")
    here.count_silent_as_down()
    here.control.evacuate(uuid, host="node2")
    while not any(isinstance(message, RebuildGuest) for message in here.control.bus.sent):
        assert here.control.bus.step()
    here.count_silent_as_down()
    here.control.conductor.runner.ask_hosts(["node2"])
    here.control.bus.run()
    with pytest.raises(Conflict, match="being evacuated already"):
        here.control.evacuate(uuid)
    here.kill("node2")
    here.count_silent_as_down()
    here.run()
    server = here.control.instance(uuid)
    assert (server.vm_state, server.task_state, server.host) == (VmState.ACTIVE, TaskState.REBUILD_SPAWNING, "node2")
    here.control.evacuate(uuid)
    here.run()
    server = here.control.instance(uuid)
    assert (server.vm_state, server.task_state, server.host) == (VmState.ACTIVE, None, "node3")
    here.begin("node1")
    here.begin("node2")
    here.run()
    assert here.having(uuid) == ["node3"]
    assert here.migrations(uuid) == [("completed", "node2", "node3"), ("completed", "node1", "node2")]
    assert here.world.check(here.control) == {uuid: VmState.ACTIVE}
