# SPDX-License-Identifier: Apache-2.0
"""Processes that register, say that they are alive, fall silent, and are followed by others, on each database."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import numpy as np
import pytest
import sqlalchemy as sa

from kilonova.clock import utc_now
from kilonova.conductor.hosts.heartbeats import Heartbeats
from kilonova.conductor.hosts.service_liveness import ServiceLiveness
from kilonova.db import host_agents, services
from kilonova.db.agent_sessions import Session
from kilonova.db.change_log.changes import Commit
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.host_agents import LEASE, Process, Route
from kilonova.errors import Forbidden
from kilonova.mirror.mirror import Mirror
from kilonova.model.host import COMPUTE, Service
from support.processes import pass_time

DOWN_TIME = timedelta(seconds=45)
LONG_AGO = datetime(2020, 1, 1)  # noqa: DTZ001 - as the tables keep it
SESSION = Process("session 1", "rack1", "rack1-agent", "1.2.3", 2)


def register(database: Database, process: Process, *hosts: str, lease: timedelta = LEASE) -> None:
    database.write(lambda tx: host_agents.register(tx, process, hosts, lease))


def beat(database: Database, *sessions: str) -> frozenset[str]:
    return database.write(lambda tx: host_agents.keep_alive(tx, sessions, LEASE))


def living(database: Database) -> set[str]:
    with database.read() as connection:
        return set(host_agents.living(connection, database.clock.now()))


def service_of(database: Database, host: str, binary: str = COMPUTE) -> Service:
    database.write(lambda tx: services.ensure(tx, host, binary))
    with database.read() as connection:
        return services.get_by_host(connection, host, binary)


@pytest.fixture
def commits(database: Database) -> list[Commit]:
    """What was committed and is told to mirrors."""
    told: list[Commit] = []
    database.on_commit(lambda commit: told.append(commit) if commit.changes else None)
    return told


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


def test_who_takes_a_host_ends_the_process_that_had_it(database: Database) -> None:
    register(database, SESSION, "a", "b")
    register(database, Process("other"), "b", "c")
    assert living(database) == {"other"}
    assert beat(database, "session 1", "other", "nobody") == {"other"}
    with database.read() as connection:
        assert {host: host_agents.process_of(connection, host) for host in "abc"} == {
            "a": "session 1", "b": "other", "c": "other",
        }  # fmt: skip


def test_mirrors_follow_hosts_that_change_processes_within_a_transaction(database: Database) -> None:
    """What is logged last of a process does not bring back what others have by then."""
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


class Listener:
    """Listens to the other processes of a database while time passes for all of them."""

    def __init__(self, database: Database, name: str = "listener") -> None:
        self.hears = True
        self._database = database
        self._now = 0.0
        self._silence = ServiceLiveness(
            database, DOWN_TIME, listener=name, hears=lambda: self.hears, clock=lambda: self._now
        )
        self._silence.look()

    def wait(self, passed: timedelta, *, stopped: bool = False) -> None:
        for part in range(1 if stopped else 10):
            pass_time(self._database, passed / (1 if stopped else 10))
            self._now += passed.total_seconds() / (1 if stopped else 10)
            if part < 9:
                self._silence.look()
        self._silence.look()


def test_silence_is_one_change_and_so_is_coming_back(database: Database, commits: list[Commit]) -> None:
    register(database, SESSION, *(f"host{number}" for number in range(1200)))
    register(database, Process("listener"), "other")
    listener = Listener(database)
    del commits[:]
    for _ in range(3):
        listener.wait(DOWN_TIME * 0.9)
        beat(database, "session 1")
    assert commits == []
    assert service_of(database, "host7").is_up
    listener.wait(DOWN_TIME * 1.1)
    (down,) = (change for commit in commits for change in commit.changes if change.kind != "service")
    assert (down.kind, down.key) == ("process", "session 1")
    assert down.value.silent_since is not None
    assert not service_of(database, "host1199").is_up
    assert service_of(database, "other").is_up, "who listens is alive"
    del commits[:]
    assert beat(database, "session 1") == {"session 1"}, "its lease is longer than that"
    (up,) = (change for commit in commits for change in commit.changes if change.kind != "service")
    assert up.value.silent_since is None
    assert service_of(database, "host1199").is_up


def test_silence_counts_only_while_somebody_listens(database: Database) -> None:
    """Else all hosts would be down at once after an outage of the broker, the database or all control processes."""
    register(database, SESSION, "a")
    register(database, Process("listener"), "other")

    def is_up() -> bool:
        return service_of(database, "a").is_up

    pass_time(database, DOWN_TIME * 20)
    listener = Listener(database)
    assert is_up(), "it has just begun to listen"
    listener.hears = False
    listener.wait(DOWN_TIME * 5)
    listener.hears = True
    listener.wait(DOWN_TIME * 5, stopped=True)
    listener.wait(DOWN_TIME * 0.5)
    listener.hears = False
    listener.wait(DOWN_TIME * 5)
    listener.hears = True
    listener.wait(DOWN_TIME * 0.4)
    assert is_up(), "for half the time and two fifths of it somebody has listened"
    listener.wait(DOWN_TIME * 0.3)
    assert not is_up()


def test_heartbeats_are_written_together(database: Database) -> None:
    heartbeats = Heartbeats(database, LEASE)
    for number in range(40):
        register(database, Process(f"session {number}", agent=f"agent {number}"), f"host{number}")
    before = database.newest_seq() if not database.is_sqlite else 0
    stolen = heartbeats.heard(Session("session 7", "agent 8"))
    beats = [Session(f"session {number}", f"agent {number}") for number in (*range(50), *range(10))]
    answers = [heartbeats.heard(each) for each in beats]
    assert not any(answer.done() for answer in answers)
    heartbeats.write()
    heartbeats.write()
    assert isinstance(stolen.exception(0), Forbidden)
    assert [answer.result(0) for answer in answers] == [number < 40 for number in (*range(50), *range(10))]
    if not database.is_sqlite:
        assert database.newest_seq() == before + 1
    for name in ("", "a\x00b", "x" * 37):
        with pytest.raises(Forbidden):
            heartbeats.heard(Session(name, "agent 1"))


def test_control_processes_are_services_of_their_machine(database: Database) -> None:
    for uuid in ("one", "two"):
        register(database, Process(uuid, "control1"), lease=LEASE * 10)
    scheduler = service_of(database, "control1", "nova-scheduler")
    assert scheduler.is_up
    assert scheduler.last_seen_at is not None
    assert not service_of(database, "control2", "nova-conductor").is_up
    pass_time(database, DOWN_TIME * 2)
    beat(database, "one")
    database.write(lambda tx: host_agents.mark_silent(tx, tx.now - DOWN_TIME))
    assert service_of(database, "control1", "nova-scheduler").is_up, "one of two is alive"
    pass_time(database, DOWN_TIME * 2)
    database.write(lambda tx: host_agents.mark_silent(tx, tx.now - DOWN_TIME))
    again = service_of(database, "control1", "nova-scheduler")
    assert not again.is_up
    assert again.last_seen_at is not None


def test_what_ended_long_ago_goes_unless_somebody_asks_for_it(database: Database) -> None:
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


def test_a_host_that_is_deleted_is_forgotten(database: Database) -> None:
    service = service_of(database, "a")
    register(database, SESSION, "a")
    database.write(lambda tx: services.delete(tx, service.uuid))
    with database.read() as connection:
        assert host_agents.process_of(connection, "a") is None


# --- clocks -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def at(database_url: str) -> Iterator[Callable[[timedelta], Database]]:
    """Opens the database in a process whose clock is wrong by so much."""
    opened: list[Database] = []

    def wrong_by(error: timedelta) -> Database:
        def clock() -> datetime:
            return utc_now() + error

        opened.append(Database(database_url, own_clock=clock))
        return opened[-1]

    yield wrong_by
    for database in opened:
        database.close()


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"], indirect=True)
def test_processes_whose_clocks_are_hours_apart_agree_on_who_lives(at: Callable[[timedelta], Database]) -> None:
    early, late = at(timedelta(hours=-3)), at(timedelta(hours=5))
    register(early, Process("early"), "a")
    register(late, Process("late"), "b")
    for database in (early, late):
        assert living(database) == {"early", "late"}
        Listener(database, "").wait(DOWN_TIME / 2)
        assert beat(database, "early", "late") == {"early", "late"}
        assert service_of(database, "a").is_up
        assert abs(database.clock.now() - utc_now()) < timedelta(seconds=1)
    assert abs(early.write(lambda tx: tx.now) - late.write(lambda tx: tx.now)) < timedelta(seconds=5)
    listener = Listener(early, "")
    listener.wait(LEASE * 2)
    assert beat(late, "late") == set()
    assert living(early) == living(late) == set()
    assert not service_of(late, "b").is_up


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"], indirect=True)
def test_time_goes_on_in_the_order_of_commits(at: Callable[[timedelta], Database]) -> None:
    """Also where one waited for another's transaction: a time is told by the server after that."""
    databases = [at(timedelta(hours=hours)) for hours in range(3)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda number: databases[number % 3].write(lambda tx: tx.now), range(120)))
    with databases[0].read() as connection:
        rows = connection.execute(sa.text("SELECT created_at FROM change_log ORDER BY seq")).scalars()
        times = list(rows)
    assert times == sorted(times)
    assert len(times) > 10
