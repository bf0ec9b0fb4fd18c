# SPDX-License-Identifier: Apache-2.0
"""The time of the database applies to all processes, also to one whose own clock is wrong."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from kilonova.clock import utc_now
from kilonova.db.database import Database
from kilonova.db.host_agents import LEASE, Process
from support.heartbeats import DOWN_TIME, Listener, beat, living, register, service_of


@pytest.fixture
def at(database_url: str) -> Iterator[Callable[[timedelta], Database]]:
    """A function that opens the database in a process whose clock is wrong by the given time."""
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
    """The server tells the time after the wait for another transaction."""
    databases = [at(timedelta(hours=hours)) for hours in range(3)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda number: databases[number % 3].write(lambda tx: tx.now), range(120)))
    with databases[0].read() as connection:
        rows = connection.execute(sa.text("SELECT created_at FROM change_log ORDER BY seq")).scalars()
        times = list(rows)
    assert times == sorted(times)
    assert len(times) > 10
