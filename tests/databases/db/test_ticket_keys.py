# SPDX-License-Identifier: Apache-2.0
from datetime import timedelta

import pytest
import sqlalchemy as sa

from kilonova.db import ticket_keys
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)


def keys(database: Database) -> list[int]:
    with database.read() as connection:
        found = ticket_keys.list_all(connection)
    assert len({each.secret for each in found}) == len(found)
    assert all(len(each.secret) == 32 for each in found)
    return [each.id for each in found]


def rotate(database: Database, *, drop_old: bool = False) -> None:
    database.write(lambda tx: ticket_keys.rotate(tx, drop_old=drop_old))


def test_the_first_key_is_made_once(database: Database) -> None:
    for _ in range(2):
        database.write(ticket_keys.ensure)
    assert len(keys(database)) == 1


def test_a_rotation_keeps_replaced_keys_for_a_while_or_drops_them(database: Database) -> None:
    for _ in range(3):
        rotate(database)
    first, second, third = keys(database)

    def age(tx: Transaction) -> None:
        tx.execute(sa.update(t.ticket_keys).values(created_at=tx.now - timedelta(days=31)))

    database.write(age)
    rotate(database)
    assert keys(database)[:-1] == [third], "the key that has signed until now stays whatever its age"
    rotate(database, drop_old=True)
    (newest,) = keys(database)
    assert newest not in {first, second, third}


def test_the_secret_of_a_key_is_not_printed(database: Database) -> None:
    rotate(database)
    with database.read() as connection:
        (key,) = ticket_keys.list_all(connection)
    assert key.secret.hex() not in repr(key)
    assert "secret" not in repr(key)
