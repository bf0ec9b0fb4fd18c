# SPDX-License-Identifier: Apache-2.0
"""A statement that takes too long, or that nobody waits for, ends; the connection serves the next one."""

import time
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from kilonova import deadline
from kilonova.db.database import Database
from kilonova.deadline import Deadline
from kilonova.errors import ClientGone, DeadlineExceeded

_PATIENCE_S = 30.0
_LONG = sa.text(
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000000) SELECT count(*) FROM n"
)
_NAP = {"postgresql": "SELECT pg_sleep(1.5)", "mariadb": "SELECT SLEEP(1.5)", "sqlite": "SELECT 1"}
_LONG_OF_MARIADB = sa.text("SELECT count(*) FROM seq_1_to_2000000000 WHERE SHA1(seq) = 'x'")


@pytest.fixture
def limited(database_url: str) -> Iterator[Database]:
    opened = Database(database_url, longest_read_s=0.5)
    yield opened
    opened.close()


def until_stopped(database: Database, limit: Deadline, kind: str) -> float:
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded), deadline.running(limit), database.read() as connection:
        connection.execute(_LONG_OF_MARIADB if kind == "mariadb" else _LONG)
    return time.monotonic() - began


def test_a_statement_ends_when_its_time_is_over(limited: Database, kind: str) -> None:
    assert until_stopped(limited, Deadline(time.monotonic() + 0.5, lambda: False), kind) < _PATIENCE_S
    with limited.read() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1


def test_what_the_process_reads_for_itself_is_not_stopped(limited: Database, kind: str) -> None:
    over = Deadline(time.monotonic() - 1, lambda: True)
    with deadline.running(over), limited.read(patient=True) as connection:
        connection.execute(sa.text(_NAP[kind]))


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_statement_ends_when_its_client_has_gone(limited: Database) -> None:
    leaves_at = time.monotonic() + 0.3
    gone = Deadline(None, lambda: time.monotonic() > leaves_at)
    with pytest.raises(ClientGone), deadline.running(gone), limited.read() as connection:
        connection.execute(_LONG)
    with deadline.running(gone), pytest.raises(ClientGone), limited.read():
        pytest.fail("nobody waits for what is read here")
