# SPDX-License-Identifier: Apache-2.0
"""Statements that go to the driver as they are: the same rows, counts and errors as through SQLAlchemy."""

from datetime import timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared, PreparedUpdate
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database

_TRAIT = t.traits.c
_ADD = Prepared(
    sa.insert(t.traits).values(name=sa.bindparam("name"), created_at=sa.bindparam("created_at", type_=t.Time))
)
_FIND = Prepared(
    sa.select(_TRAIT.name, _TRAIT.created_at, _TRAIT.updated_at, sa.literal(7))
    .where(
        _TRAIT.name.in_(sa.bindparam("names", expanding=True)), _TRAIT.created_at >= sa.bindparam("since", type_=t.Time)
    )
    .order_by(_TRAIT.id)
)
_DROP = Prepared(sa.delete(t.traits).where(_TRAIT.name.in_(sa.bindparam("names", expanding=True))))
NAMES = [f"CUSTOM_{number}_%s:x" for number in range(11)]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 8, 11])
def test_lists_of_any_length_find_what_sqlalchemy_finds(database: Database, count: int) -> None:
    wanted = NAMES[:count]

    def job(tx: Transaction) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]], int, int]:
        _ADD.run_each(tx.connection, [{"name": name, "created_at": tx.now} for name in NAMES])
        found = _FIND.rows(tx.connection, names=wanted, since=tx.now - timedelta(seconds=1))
        same = sa.select(_TRAIT.name, _TRAIT.created_at, _TRAIT.updated_at, sa.literal(7)).where(
            _TRAIT.name.in_(wanted)
        )
        expected = [tuple(row) for row in tx.execute(same.order_by(_TRAIT.id))]
        late = _FIND.rows(tx.connection, names=wanted, since=tx.now + timedelta(seconds=1))
        return found, expected, len(late), _DROP.run(tx.connection, names=wanted)

    found, expected, late, dropped = database.write(job)
    assert found == expected
    assert (len(found), late, dropped) == (count, 0, count)


_BETWEEN = Prepared(
    sa.select(_TRAIT.name)
    .where(
        _TRAIT.name.in_(sa.bindparam("wanted", expanding=True)),
        _TRAIT.name.not_in(sa.bindparam("others", expanding=True)),
        _TRAIT.name.not_in([NAMES[0]]),
    )
    .order_by(_TRAIT.id)
)


def test_several_lists_are_told_apart_however_they_are_given(database: Database) -> None:
    def job(tx: Transaction) -> tuple[list[str], list[str]]:
        _ADD.run_each(tx.connection, [{"name": name, "created_at": tx.now} for name in NAMES])
        found = _BETWEEN.rows(tx.connection, wanted=NAMES[:5], others=NAMES[4:6])
        same = _BETWEEN.rows(tx.connection, others=NAMES[3:8], wanted=NAMES[:2])
        return [name for (name,) in found], [name for (name,) in same]

    assert database.write(job) == (NAMES[1:4], NAMES[1:2])


def test_an_error_is_what_sqlalchemy_would_raise_and_says_no_values(database: Database) -> None:
    def twice(tx: Transaction) -> None:
        for _ in range(2):
            _ADD.run(tx.connection, name="CUSTOM_TWICE", created_at=tx.now)

    with pytest.raises(IntegrityError) as caught:
        database.write(twice)
    assert caught.value.params is None or "CUSTOM_TWICE" not in str(caught.value.params)
    with database.read() as connection:
        assert connection.execute(sa.select(_TRAIT.id).where(_TRAIT.name == "CUSTOM_TWICE")).first() is None


def test_an_update_sets_any_columns_of_the_rows_that_meet_its_conditions(database: Database) -> None:
    some = PreparedUpdate(t.traits, _TRAIT.name.in_(sa.bindparam("names", expanding=True)), _TRAIT.updated_at.is_(None))

    def job(tx: Transaction) -> None:
        _ADD.run_each(tx.connection, [{"name": name, "created_at": tx.now} for name in NAMES])
        later = tx.now + timedelta(seconds=1)
        assert some.run(tx.connection, {"created_at": later}, names=NAMES[:3]) == 3
        assert some.run(tx.connection, {"created_at": later, "updated_at": tx.now}, names=NAMES[:2]) == 2
        assert some.run(tx.connection, {"updated_at": later}, names=NAMES[:3]) == 1
        assert some.run(tx.connection, {"updated_at": None}, names=[]) == 0
        rows = _FIND.rows(tx.connection, names=NAMES[:4], since=tx.now - timedelta(seconds=1))
        assert [row[1:3] for row in rows] == [(later, tx.now), (later, tx.now), (later, later), (tx.now, None)]

    database.write(job)


def test_few_texts_serve_lists_of_many_lengths(database: Database) -> None:
    find = Prepared(sa.select(_TRAIT.name).where(_TRAIT.name.in_(sa.bindparam("names", expanding=True))))

    def job(tx: Transaction) -> None:
        for count in range(1, 200):
            assert len(find.rows(tx.connection, names=["HW_CPU_X86_AVX"] * count)) == 1

    database.write(job)
    assert len(find._ready) == 9


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_the_writer_keeps_more_statements_prepared_than_the_driver_by_default(database: Database) -> None:
    texts = [f"SELECT {number}" for number in range(150)]

    def job(tx: Transaction) -> int:
        for text in texts * 6:  # psycopg prepares a statement when it has run five times
            tx.connection.exec_driver_sql(text)
        kept = "SELECT count(*) FROM pg_prepared_statements WHERE statement ~ '^SELECT [0-9]+$'"
        return int(tx.connection.exec_driver_sql(kept).scalar_one())

    assert database.write(job) == len(texts)
