# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.db import switches
from kilonova.db.database import Database
from kilonova.db.switches import READ_ONLY, Switch

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)


def find(database: Database) -> Switch | None:
    with database.read() as connection:
        return switches.find(connection, READ_ONLY)


def test_a_switch_that_is_turned_on_again_keeps_its_time_and_gets_the_new_reason(database: Database) -> None:
    assert find(database) is None
    database.write(lambda tx: switches.turn_on(tx, READ_ONLY, "backup"))
    first = find(database)
    for _ in range(2):
        database.write(lambda tx: switches.turn_on(tx, READ_ONLY, "upgrade"))
    second = find(database)
    assert first is not None
    assert second == Switch(READ_ONLY, "upgrade", first.since)


def test_turning_off_is_idempotent(database: Database) -> None:
    database.write(lambda tx: switches.turn_on(tx, READ_ONLY, "backup"))
    for _ in range(2):
        database.write(lambda tx: switches.turn_off(tx, READ_ONLY))
        assert find(database) is None
