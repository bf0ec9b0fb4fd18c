# SPDX-License-Identifier: Apache-2.0
"""Statements in one round trip: answers in order, nothing after a failure, and one commit."""

from collections.abc import Iterator
from datetime import datetime

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError

from kilonova.db.core import tables as t
from kilonova.db.core.pipeline import pipelined, send_commit
from kilonova.db.core.prepared import Prepared, PreparedInsert
from kilonova.db.database import Database

SERVERS = ("postgresql", "mariadb")
pytestmark = pytest.mark.parametrize("kind", SERVERS, indirect=True)

NOW = datetime(2026, 1, 1)  # noqa: DTZ001 - as stored: UTC without zone
_C = t.resource_classes.c
INSERT = Prepared(sa.insert(t.resource_classes).values(name=sa.bindparam("name"), created_at=sa.func.now()))
RENAME = Prepared(
    sa.update(t.resource_classes).where(_C.name.like(sa.bindparam("like"))).values(updated_at=sa.func.now())
)
NAMES = Prepared(sa.select(_C.name).where(_C.name.like("CUSTOM_%")).order_by(_C.name))


@pytest.fixture
def connection(database: Database) -> Iterator[Connection]:
    """Connection of the writer's kind."""
    with database._writer._connection._engine.connect() as connection:
        yield connection


def names(connection: Connection) -> list[str]:
    return [name for (name,) in NAMES.rows(connection)]


def test_answers_belong_to_their_statements(connection: Connection) -> None:
    with connection.begin():
        with pipelined(connection):
            INSERT.run(connection, name="CUSTOM_A")
            INSERT.run(connection, name="CUSTOM_'; --\\")
            renamed = RENAME.send(connection, like="CUSTOM_%")
            found = NAMES.send(connection)
            none = RENAME.send(connection, like="NOTHING_%")
        assert renamed.count() == 2
        assert len(found.rows()) == 2
        assert none.count() == 0


def test_many_rows_of_one_statement(connection: Connection) -> None:
    insert = PreparedInsert(t.traits)
    rows = [{"name": f"CUSTOM_{number}", "created_at": NOW} for number in range(3)]
    count = Prepared(sa.select(sa.func.count()).select_from(t.traits).where(t.traits.c.name.like("CUSTOM_%")))
    with connection.begin():
        with pipelined(connection):
            insert.run(connection, rows)
            found = count.send(connection)
        assert found.rows() == [(3,)]


def test_nothing_runs_after_a_failure(connection: Connection) -> None:
    with connection.begin() as transaction:
        INSERT.run(connection, name="CUSTOM_A")
        with pytest.raises(IntegrityError), pipelined(connection):
            INSERT.run(connection, name="CUSTOM_A")
            send_commit(connection)
        transaction.rollback()
    with connection.begin():
        assert names(connection) == []


def test_an_exception_inside_sends_nothing_to_be_kept(connection: Connection) -> None:
    with connection.begin() as transaction:
        with pytest.raises(ZeroDivisionError), pipelined(connection):
            INSERT.run(connection, name="CUSTOM_A")
            raise ZeroDivisionError
        transaction.rollback()
    with connection.begin():
        assert names(connection) == []


def test_a_commit_that_was_sent_is_not_repeated(connection: Connection, database: Database) -> None:
    with connection.begin() as transaction:
        with pipelined(connection):
            INSERT.run(connection, name="CUSTOM_A")
            send_commit(connection)
        transaction.commit()
    with connection.begin():
        INSERT.run(connection, name="CUSTOM_B")  # committed without a pipeline
    with database.read() as reader:
        assert [name for (name,) in NAMES.rows(reader)] == ["CUSTOM_A", "CUSTOM_B"]


def test_long_statements_are_sent_in_several_messages(connection: Connection) -> None:
    length = Prepared(sa.select(sa.func.length(sa.bindparam("text", type_=sa.Text()))))
    with connection.begin():
        with pipelined(connection):
            sent = [length.send(connection, text="x" * (400_000 + number)) for number in range(8)]
        assert [each.rows() for each in sent] == [[(400_000 + number,)] for number in range(8)]


def test_a_failure_in_a_later_message_is_raised(connection: Connection) -> None:
    length = Prepared(sa.select(sa.func.length(sa.bindparam("text", type_=sa.Text()))))
    with connection.begin() as transaction:
        INSERT.run(connection, name="CUSTOM_A")
        with pytest.raises(DBAPIError), pipelined(connection):
            for _ in range(4):
                length.send(connection, text="x" * 400_000)
            INSERT.run(connection, name="CUSTOM_A")
        transaction.rollback()
