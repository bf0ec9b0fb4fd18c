# SPDX-License-Identifier: Apache-2.0
"""Statements are cancelled at their deadline, or when their client has gone; the connection stays usable."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from kilonova import deadline
from kilonova.db.database import Database
from kilonova.deadline import Deadline
from kilonova.errors import ClientGone, DeadlineExceeded

_TIMEOUT_S = 30.0
_LONG = sa.text(
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000000) SELECT count(*) FROM n"
)
_NAP = {"postgresql": "SELECT pg_sleep(1.5)", "mariadb": "SELECT SLEEP(1.5)", "sqlite": "SELECT 1"}
_SHORT_NAP = {"postgresql": "SELECT pg_sleep(0.1)", "mariadb": "SELECT SLEEP(0.1)", "sqlite": "SELECT 1"}
_LONG_OF_MARIADB = sa.text("SELECT count(*) FROM seq_1_to_2000000000 WHERE SHA1(seq) = 'x'")


def long_statement(kind: str) -> sa.TextClause:
    return _LONG_OF_MARIADB if kind == "mariadb" else _LONG


@pytest.fixture
def limited(database_url: str) -> Iterator[Database]:
    opened = Database(database_url, longest_read_s=0.5)
    yield opened
    opened.close()


def until_stopped(database: Database, limit: Deadline, kind: str) -> float:
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded), deadline.running(limit), database.read() as connection:
        connection.execute(long_statement(kind))
    return time.monotonic() - began


def test_a_statement_ends_when_its_time_is_over(limited: Database, kind: str) -> None:
    assert until_stopped(limited, Deadline(time.monotonic() + 0.5, lambda: False), kind) < _TIMEOUT_S
    with limited.read() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1


def test_what_the_process_reads_for_itself_is_not_stopped(limited: Database, kind: str) -> None:
    over = Deadline(time.monotonic() - 1, lambda: True)
    with deadline.running(over), limited.read(patient=True) as connection:
        connection.execute(sa.text(_NAP[kind]))


def test_a_statement_ends_when_its_client_has_gone(database: Database, kind: str) -> None:
    leaves_at = time.monotonic() + 0.3
    gone = Deadline(None, lambda: time.monotonic() > leaves_at)
    with pytest.raises(ClientGone), deadline.running(gone), database.read() as connection:
        connection.execute(long_statement(kind))
    assert time.monotonic() - leaves_at < _TIMEOUT_S / 10
    with deadline.running(gone), pytest.raises(ClientGone), database.read():
        pytest.fail("nobody waits for what is read here")
    there = Deadline(None, lambda: False)
    for _ in range(30):
        with deadline.running(there), database.read() as connection:
            assert connection.execute(sa.text("SELECT 1")).scalar() == 1


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"], indirect=True)
def test_a_read_ends_whose_client_has_gone_after_its_last_statement(database: Database) -> None:
    leaves_at = time.monotonic() + 0.2
    gone = Deadline(None, lambda: time.monotonic() > leaves_at)
    with pytest.raises(ClientGone), deadline.running(gone), database.read() as connection:
        connection.execute(sa.text("SELECT 1"))
        time.sleep(1)
    with database.read() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1


def test_the_reads_of_others_go_on_when_one_client_has_gone(database: Database, kind: str) -> None:
    """Many at once, half of them left in the middle of a statement, on connections that are used again and again."""
    began = time.monotonic()

    def read(number: int) -> str:
        leaves_at = time.monotonic() + 0.3
        limit = Deadline(None, (lambda: time.monotonic() > leaves_at) if number % 2 else (lambda: False))
        try:
            with deadline.running(limit), database.read() as connection:
                connection.execute(long_statement(kind) if number % 2 else sa.text(_SHORT_NAP[kind]))
        except ClientGone:
            return "gone"
        return "read"

    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(read, range(40)))
    assert seen == ["read", "gone"] * 20
    assert time.monotonic() - began < _TIMEOUT_S
