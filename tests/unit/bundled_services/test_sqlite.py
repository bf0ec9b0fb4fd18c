# SPDX-License-Identifier: Apache-2.0
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy import text
from sqlalchemy.engine import Engine

from kilonova.bundled_services import sqlite, sqlite_url


def _rows(database: Path) -> list[tuple[int]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute("SELECT n FROM t ORDER BY n").fetchall()


def _make(part: Path) -> None:
    with closing(sqlite3.connect(part)) as connection:
        connection.execute("CREATE TABLE t (n INTEGER)")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.commit()


def test_a_new_database_is_made_in_wal_mode_and_only_once(tmp_path: Path) -> None:
    database = tmp_path / "x.db"
    made: list[Path] = []

    def migrate(part: Path) -> None:
        made.append(part)
        _make(part)

    for _ in range(2):
        sqlite.bring_up_to_date(database, "1", migrate)
    assert len(made) == 1
    assert _rows(database) == [(1,)]
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_migration_that_fails_half_way_changes_nothing_and_can_be_repeated(tmp_path: Path) -> None:
    database = tmp_path / "x.db"
    sqlite.bring_up_to_date(database, "1", _make)

    def fail(part: Path) -> None:
        with closing(sqlite3.connect(part)) as connection:
            connection.execute("CREATE TABLE half (n INTEGER)")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        sqlite.bring_up_to_date(database, "2", fail)

    def add(part: Path) -> None:
        with closing(sqlite3.connect(part)) as connection:
            connection.execute("CREATE TABLE half (n INTEGER)")

    assert _rows(database) == [(1,)]
    sqlite.bring_up_to_date(database, "2", add)
    assert _rows(database) == [(1,)]


def test_what_only_the_log_holds_is_kept_by_a_migration(tmp_path: Path) -> None:
    database = tmp_path / "x.db"
    sqlite.bring_up_to_date(database, "1", _make)
    copy = tmp_path / "killed.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("INSERT INTO t VALUES (2)")
        connection.commit()
        for suffix in ("", "-wal"):  # the state that a killed process leaves: committed, not in the main file
            copy.with_name(copy.name + suffix).write_bytes(database.with_name(database.name + suffix).read_bytes())
    sqlite.bring_up_to_date(copy, "2", lambda _: None)
    assert _rows(copy) == [(1,), (2,)]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """Behave as oslo.db makes an engine: no transactions by the driver, a plain BEGIN by SQLAlchemy."""
    database = tmp_path / "x.db"
    sqlite.bring_up_to_date(database, "1", _make)
    engine = sqlalchemy.create_engine(sqlite_url.url(database))

    @sqlalchemy.event.listens_for(engine, "connect")
    def _(raw: sqlite3.Connection, _record: object) -> None:
        raw.isolation_level = None

    @sqlalchemy.event.listens_for(engine, "begin")
    def _(connection: sqlalchemy.Connection) -> None:
        connection.execute(text("BEGIN"))

    yield engine
    engine.dispose()


def _write_after_another_wrote(engine: Engine) -> None:
    with engine.connect() as one:
        one.execute(text("SELECT n FROM t")).all()
        with engine.begin() as other:
            other.execute(text("INSERT INTO t VALUES (2)"))
        one.execute(text("INSERT INTO t VALUES (3)"))
        one.commit()


def test_a_plain_begin_is_refused_when_another_wrote_in_between(engine: Engine) -> None:
    with pytest.raises(sqlalchemy.exc.OperationalError, match="locked"):
        _write_after_another_wrote(engine)


def test_a_late_begin_is_not(engine: Engine, tmp_path: Path) -> None:
    sqlite.lock_on_first_write(engine)
    _write_after_another_wrote(engine)
    assert _rows(tmp_path / "x.db") == [(1,), (2,), (3,)]


def test_a_late_begin_still_rolls_back(engine: Engine, tmp_path: Path) -> None:
    sqlite.lock_on_first_write(engine)
    with engine.connect() as connection:
        connection.execute(text("INSERT INTO t VALUES (4)"))
        with connection.begin_nested():
            connection.execute(text("INSERT INTO t VALUES (5)"))
        connection.rollback()
    assert _rows(tmp_path / "x.db") == [(1,)]
