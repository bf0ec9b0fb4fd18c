# SPDX-License-Identifier: Apache-2.0
"""A shared task is run by one process at a time, and not before it is due."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from kilonova.db import shared_tasks
from kilonova.db.core import tables as t
from kilonova.db.database import Database

pytestmark = pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"], indirect=True)
HOUR, LEASE = timedelta(hours=1), timedelta(minutes=5)


def begins(database: Database, owner: str) -> bool:
    return database.write(lambda tx: shared_tasks.begin(tx, "count", owner, every=HOUR, lease=LEASE))


def pass_by(database: Database, column: str, age: timedelta) -> None:
    value = {column: database.clock.now() - age}
    database.write(lambda tx: tx.execute(sa.update(t.shared_tasks).values(value)))


def test_one_process_runs_it_until_it_is_due_again(database: Database) -> None:
    with database.read() as connection:
        assert shared_tasks.last(connection, "count") is None
    assert begins(database, "one")
    assert not begins(database, "two")
    assert database.write(lambda tx: shared_tasks.keep(tx, "count", "one"))
    assert database.write(lambda tx: shared_tasks.finish(tx, "count", "one", {"some": 3}))
    with database.read() as connection:
        last = shared_tasks.last(connection, "count")
    assert last is not None
    assert last.result == {"some": 3}
    assert not begins(database, "two")
    pass_by(database, "finished_at", HOUR)
    assert begins(database, "two")
    with database.read() as connection:
        assert shared_tasks.last(connection, "count") is not None, "the result of the run before is kept"


def test_the_run_of_a_silent_process_is_taken_over(database: Database) -> None:
    assert begins(database, "one")
    pass_by(database, "seen_at", LEASE + timedelta(seconds=1))
    assert begins(database, "two")
    assert not database.write(lambda tx: shared_tasks.keep(tx, "count", "one"))
    assert not database.write(lambda tx: shared_tasks.finish(tx, "count", "one", {}))
    assert database.write(lambda tx: shared_tasks.finish(tx, "count", "two", {}))
