# SPDX-License-Identifier: Apache-2.0
"""Statements in one round trip: the same rows, counts and errors as one after the other."""

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database

_TRAIT = t.traits.c
_ADD = Prepared(
    sa.insert(t.traits).values(name=sa.bindparam("name"), created_at=sa.bindparam("created_at", type_=t.Time))
)
_NAMES = Prepared(sa.select(_TRAIT.name).where(_TRAIT.name.like("CUSTOM_%")).order_by(_TRAIT.id))
_DROP = Prepared(sa.delete(t.traits).where(_TRAIT.name == sa.bindparam("name")))


def add(tx: Transaction, *names: str) -> None:
    for name in names:
        _ADD.run(tx.connection, name=name, created_at=tx.now)


def names(tx: Transaction) -> list[str]:
    return [name for (name,) in _NAMES.rows(tx.connection)]


def test_answers_are_read_at_the_end_in_the_order_of_the_statements(database: Database) -> None:
    seen: list[object] = []

    def write(tx: Transaction) -> None:
        with tx.together():
            add(tx, "CUSTOM_A", "CUSTOM_B")
            found = _NAMES.send(tx.connection)
            tx.then(lambda: seen.append(found.rows()))
            dropped = _DROP.send(tx.connection, name="CUSTOM_A")
            tx.then(lambda: seen.append(dropped.count()))
            missing = _DROP.send(tx.connection, name="CUSTOM_C")
            tx.then(lambda: seen.append(missing.count()))
            assert not seen
        assert seen == [[("CUSTOM_A",), ("CUSTOM_B",)], 1, 0]
        tx.then(lambda: seen.append("at once"))
        assert seen[-1] == "at once"
        assert names(tx) == ["CUSTOM_B"]

    database.write(write)


def test_a_failed_statement_is_undone_with_its_savepoint(database: Database) -> None:
    called: list[str] = []

    def write(tx: Transaction) -> list[str]:
        add(tx, "CUSTOM_BEFORE")
        with pytest.raises(IntegrityError), tx.savepoint(), tx.together():
            add(tx, "CUSTOM_TWICE", "CUSTOM_TWICE", "CUSTOM_LATER")
            tx.then(lambda: called.append("in the failed block"))
        add(tx, "CUSTOM_AFTER")
        return names(tx)

    assert database.write(write) == ["CUSTOM_BEFORE", "CUSTOM_AFTER"]
    assert not called


def test_an_error_of_the_block_itself_leaves_a_usable_transaction(database: Database) -> None:
    def write(tx: Transaction) -> list[str]:
        with pytest.raises(KeyError), tx.savepoint(), tx.together():
            add(tx, "CUSTOM_INSIDE")
            raise KeyError
        add(tx, "CUSTOM_AFTER")
        return names(tx)

    assert database.write(write) == ["CUSTOM_AFTER"]


def test_a_check_at_the_end_that_fails_undoes_the_write(database: Database) -> None:
    def refuse() -> None:
        raise ValueError

    def write(tx: Transaction) -> None:
        with tx.together():
            add(tx, "CUSTOM_REFUSED")
            tx.then(refuse)

    with pytest.raises(ValueError):
        database.write(write)
    assert database.write(names) == []
