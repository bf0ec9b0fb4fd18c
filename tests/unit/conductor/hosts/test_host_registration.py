# SPDX-License-Identifier: Apache-2.0
"""Hosts that start are registered many at once, and each comes out as if it had been registered alone."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from kilonova.compute.virt.fake import FakeDriver
from kilonova.conductor.hosts.host_registration import register_hosts
from kilonova.db import aggregates, compute_nodes, node_reports, provider_states, services
from kilonova.db.core import change_log
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.host_agents import Process
from kilonova.db.provider_states import ProviderState
from kilonova.errors import Conflict, InvalidRequest
from kilonova.messaging.messages import HostsStarted
from kilonova.model.host import COMPUTE, NODE_TRAITS, NodeReport
from support.cell import PLAIN, host

_LEASE = timedelta(seconds=60)


def report(folder: Path, name: str) -> NodeReport:
    said = FakeDriver(host(name), folder / "guests.json", PLAIN).report()
    return replace(said, traits=(*NODE_TRAITS, *said.traits))


def register(database: Database, *reports: NodeReport) -> list[str]:
    """Register hosts; return the statements that only read."""
    told: list[str] = []

    def job(tx: Transaction) -> None:
        driver = tx.connection.connection.dbapi_connection
        assert driver is not None
        driver.set_trace_callback(told.append)
        try:
            register_hosts(tx, HostsStarted(tuple(reports), session="s"), Process("s", "m", "agent"), _LEASE)
        finally:
            driver.set_trace_callback(None)

    database.write(job)
    return [statement for statement in told if statement.startswith("SELECT")]


def stored(database: Database, name: str) -> tuple[ProviderState, object]:
    with database.read() as connection:
        (node,) = compute_nodes.list_by_host(connection, name)
        return provider_states.by_uuid(connection, [node.uuid])[node.uuid], node.capabilities


def comparable(state: ProviderState) -> object:
    held = {name: (each.inventory, each.used) for name, each in state.inventories.items()}
    return held, set(state.traits), state.provider.generation, set(state.aggregates)


def test_no_host_costs_a_question_of_its_own(sqlite: Database, tmp_path: Path) -> None:
    few = register(sqlite, *(report(tmp_path, f"few{number}") for number in range(5)))
    many = register(sqlite, *(report(tmp_path, f"many{number}") for number in range(100)))
    again = register(sqlite, *(report(tmp_path, f"many{number}") for number in range(100)))
    assert len(many) <= len(few) + 2
    assert len(again) <= len(many)


def test_each_comes_out_as_alone(sqlite: Database, tmp_path: Path) -> None:
    register(sqlite, report(tmp_path, "alone"))
    register(sqlite, *(report(tmp_path, f"node{number}") for number in range(10)))
    alone, capabilities = stored(sqlite, "alone")
    for number in range(10):
        state, its_capabilities = stored(sqlite, f"node{number}")
        assert comparable(state) == comparable(alone)
        assert its_capabilities == capabilities
    before = stored(sqlite, "node3")
    register(sqlite, *(report(tmp_path, f"node{number}") for number in range(10)))
    assert stored(sqlite, "node3") == before, "nothing differs"


def with_abilities(said: NodeReport, *abilities: str) -> NodeReport:
    return replace(said, capabilities=replace(said.capabilities, abilities=abilities))


def test_abilities_are_kept_as_they_were_reported_last(sqlite: Database, tmp_path: Path) -> None:
    def told() -> tuple[object, object, object]:
        with sqlite.read() as connection:
            logged = [
                change.value.capabilities.abilities
                for commit in change_log.between(connection, 0) or ()
                for change in commit.changes
                if change.kind == "node"
            ]
            (node,) = compute_nodes.list_by_host(connection, "node1")
            raw = connection.execute(sa.select(sa.text("abilities IS NULL")).select_from(t.compute_nodes)).scalar_one()
        return node.capabilities.abilities, logged[-1], bool(raw)

    said = report(tmp_path, "node1")
    register(sqlite, replace(said, capabilities=replace(said.capabilities, abilities=None)))
    assert told() == (None, None, True), "its agent is of the release before"
    register(sqlite, with_abilities(said, "pause", "rescue"))
    assert told() == (("pause", "rescue"), ["pause", "rescue"], False)
    register(sqlite, with_abilities(said, "pause"))
    assert told() == (("pause",), ["pause"], False)
    register(sqlite, with_abilities(said))
    assert told() == ((), [], False)


def test_what_operators_said_of_a_host_before_its_hypervisor_came(sqlite: Database, tmp_path: Path) -> None:
    def say(tx: Transaction) -> None:
        known = services.ensure_all(tx, ["node1", "node2"], COMPUTE)
        services.update(tx, known["node2"].uuid, disabled=True)
        aggregate = aggregates.create(tx, "fast", None)
        aggregates.add_host(tx, aggregate.id, "node1", default_zone="nova")

    sqlite.write(say)
    register(sqlite, *(report(tmp_path, f"node{number}") for number in range(3)))
    states = [stored(sqlite, f"node{number}")[0] for number in range(3)]
    assert [len(state.aggregates) for state in states] == [0, 1, 0]
    assert ["COMPUTE_STATUS_DISABLED" in state.traits for state in states] == [False, False, True]


def test_one_hostile_agent_fills_neither_the_database_nor_the_mirrors(sqlite: Database, tmp_path: Path) -> None:
    one = report(tmp_path, "one")
    for step in range(node_reports.MOST_CUSTOM // 500):
        names = tuple(f"CUSTOM_{step}_{number}" for number in range(500))
        register(sqlite, replace(one, traits=names))
    with pytest.raises(InvalidRequest, match="Agents may create at most 2000 custom traits"):
        register(sqlite, replace(one, traits=("CUSTOM_ONE_MORE",)))
    assert len(stored(sqlite, "one")[0].traits) == node_reports.MOST_CUSTOM
    with pytest.raises(InvalidRequest, match="Unknown traits: FFF") as refused:
        register(sqlite, replace(one, traits=tuple("F" * 1000 + str(number) for number in range(1000))))
    assert len(refused.value.message) < 1000
    big = replace(one, metrics={f"m{number}": 0.0 for number in range(200_000)})
    with pytest.raises(InvalidRequest, match="The report of host one has"):
        register(sqlite, big)
    with sqlite.read() as connection:
        (node,) = compute_nodes.list_by_host(connection, "one")
    assert not node.metrics


def test_two_hypervisors_of_one_name_are_refused_and_nothing_is_stored(sqlite: Database, tmp_path: Path) -> None:
    one, other = report(tmp_path, "one"), report(tmp_path, "other")
    with pytest.raises(Conflict, match="already exists"):
        register(sqlite, one, replace(other, hypervisor_hostname=one.hypervisor_hostname))
    with sqlite.read() as connection:
        assert services.list_all(connection, binary=COMPUTE) == ()


def test_a_host_that_is_told_of_twice_is_stored_as_told_last(sqlite: Database, tmp_path: Path) -> None:
    one = report(tmp_path, "one")
    register(sqlite, one, replace(one, host_ip="10.0.0.9"))
    with sqlite.read() as connection:
        (node,) = compute_nodes.list_by_host(connection, "one")
    assert node.host_ip == "10.0.0.9"
