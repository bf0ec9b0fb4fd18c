# SPDX-License-Identifier: Apache-2.0
"""Processes register hosts, keep their sessions with heartbeats, and lose them to other processes."""

from datetime import datetime, timedelta

import numpy as np
import sqlalchemy as sa

from kilonova.db import host_agents, services
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.host_agents import LEASE, Process, Route
from kilonova.mirror.mirror import Mirror
from kilonova.model.host import COMPUTE
from support.heartbeats import DOWN_TIME, SESSION, beat, living, register, service_of
from support.processes import pass_time

LONG_AGO = datetime(2020, 1, 1)  # noqa: DTZ001 - as the tables keep it


def test_where_agents_are(database: Database) -> None:
    register(database, SESSION, "a", "b")
    register(database, SESSION, "c")
    register(database, Process("control"), "d")
    with database.read() as connection:
        assert host_agents.route(connection, "c") == Route("session 1", "rack1-agent")
        assert host_agents.route(connection, "d") == Route("control", None)
        assert host_agents.route(connection, "nowhere") is None
        assert host_agents.process_of(connection, "a") == "session 1"
    assert living(database) == {"session 1", "control"}


def test_a_process_that_takes_a_host_ends_the_session_of_its_predecessor(database: Database) -> None:
    register(database, SESSION, "a", "b")
    register(database, Process("other"), "b", "c")
    assert living(database) == {"other"}
    assert beat(database, "session 1", "other", "nobody") == {"other"}
    with database.read() as connection:
        assert {host: host_agents.process_of(connection, host) for host in "abc"} == {
            "a": "session 1", "b": "other", "c": "other",
        }  # fmt: skip


def test_processes_that_have_ended_for_certain_lose_their_leases(database: Database) -> None:
    for name in ("one", "other", "third"):
        register(database, Process(name))
    database.write(lambda tx: host_agents.end_leases(tx, ["one", "third", "unknown"]))
    assert living(database) == {"other"}


def test_mirrors_follow_hosts_that_change_processes_within_a_transaction(database: Database) -> None:
    """The last logged change of a process does not give it back hosts that other processes have by then."""
    mirror = Mirror.follow(database, clock=lambda: 1.0)
    for host in "abc":
        service_of(database, host)
    one, other = Process("one"), Process("other")

    def job(tx: Transaction) -> None:
        host_agents.register(tx, other, "a", LEASE)
        host_agents.register(tx, one, "d", LEASE)
        services.delete(tx, services.get_by_host(tx.connection, "b").uuid)
        services.ensure(tx, "b", COMPUTE)
        host_agents.register(tx, one, "c", LEASE)

    register(database, one, "a", "b")
    database.write(job)
    mirror.catch_up()
    numbers = np.array([mirror._state.node_ids.host(host) for host in "abc"], dtype=np.int32)
    seen = [mirror._state._hosts.up(numbers).tolist()]
    database.write(lambda tx: tx.execute(sa.update(t.processes).values(last_seen_at=LONG_AGO)))
    database.write(lambda tx: host_agents.mark_silent(tx, tx.now - DOWN_TIME, besides="other"))
    mirror.catch_up()
    seen.append(mirror._state._hosts.up(numbers).tolist())
    assert seen == [[True, False, True], [True, False, False]]


def test_a_new_session_of_an_agent_process_ends_the_one_before(database: Database) -> None:
    register(database, SESSION, "a")
    register(database, Process("session 2", "rack1", "rack1-agent"), "b")
    assert living(database) == {"session 2"}


def test_a_session_that_has_lapsed_stays_so_until_it_registers_anew(database: Database) -> None:
    register(database, SESSION, "a")
    pass_time(database, LEASE / 2)
    assert beat(database, "session 1") == {"session 1"}
    pass_time(database, LEASE * 0.75)
    assert living(database) == {"session 1"}, "its lease counts from its last sign of life"
    pass_time(database, LEASE * 0.75)
    assert living(database) == set()
    assert beat(database, "session 1") == set()
    register(database, SESSION, "a")
    assert living(database) == {"session 1"}


def test_sessions_that_ended_long_ago_are_deleted_unless_a_host_refers_to_them(database: Database) -> None:
    register(database, Process("first", "control1"))
    pass_time(database, timedelta(seconds=5))
    register(database, Process("second", "control1"))
    register(database, SESSION, "a")
    register(database, Process("empty session", "rack2", "rack2-agent"))
    for passed, left in ((8, 4), (8, 2)):
        pass_time(database, LEASE * passed)
        database.write(lambda tx: host_agents.forget_ended(tx, LEASE))
        with database.read() as connection:
            assert connection.execute(sa.text("SELECT count(*) FROM processes")).scalar_one() == left
    with database.read() as connection:
        assert host_agents.process_of(connection, "a") == "session 1"
        assert set(host_agents.machines(connection)) == {"control1"}


def test_a_process_lives_as_long_as_its_lease(database: Database) -> None:
    register(database, Process("alive"))
    register(database, Process("dead"), lease=timedelta(seconds=-5))
    assert living(database) == {"alive"}
