# SPDX-License-Identifier: Apache-2.0
"""The directory of the agent process of each host, as a control process reads it from the database."""

from collections.abc import Callable

import pytest

from kilonova.conductor.hosts.agent_directory import AgentDirectory
from kilonova.db import host_agents
from kilonova.db.database import Database
from kilonova.db.host_agents import LEASE, Process

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)


@pytest.fixture
def passed() -> list[float]:
    """The seconds by the clock of the directory."""
    return [0.0]


@pytest.fixture
def directory(database: Database, passed: list[float]) -> AgentDirectory:
    return AgentDirectory(database, LEASE, lambda: passed[0])


@pytest.fixture
def report(database: Database) -> Callable[..., None]:
    def registered(session: str, *hosts: str) -> None:
        process = Process(session, agent="rack1")
        database.write(lambda tx: host_agents.register(tx, process, hosts, LEASE))

    return registered


def test_hosts_that_a_session_reports_late_are_noticed(
    directory: AgentDirectory, passed: list[float], report: Callable[..., None]
) -> None:
    report("session 1", "node1")
    for _ in range(100):  # as often as when many agent processes register at the same time
        directory.refresh()
    report("session 1", "node2")
    directory.refresh()
    assert not directory.is_alive("node2")
    passed[0] = 20.0
    directory.refresh()
    assert directory.is_alive("node2")
    report("session 1", "node3")
    passed[0] = 300.0
    directory.refresh()
    assert directory.is_alive("node3")


def test_who_registers_hosts_knows_them_at_once(directory: AgentDirectory, report: Callable[..., None]) -> None:
    report("session 1", "node1")
    directory.refresh("session 1")
    report("session 1", "node2")
    directory.refresh("session 1")
    assert [directory.is_alive(host) for host in ("node1", "node2", "node3")] == [True, True, False]
