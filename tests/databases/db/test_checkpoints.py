# SPDX-License-Identifier: Apache-2.0
from datetime import timedelta

import pytest

from kilonova.db import checkpoints
from kilonova.db.checkpoints import GIVEN_UP
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)

OFTEN = {"every": timedelta(hours=1), "commits": 10**9}


def test_an_incomplete_checkpoint_blocks_the_next_one_until_it_is_given_up(database: Database) -> None:
    first = database.write(lambda tx: checkpoints.begin(tx, **OFTEN))
    assert first is not None
    assert database.write(lambda tx: checkpoints.begin(tx, **OFTEN)) is None
    now = database.write(lambda tx: tx.now)
    with database.read() as connection:
        assert not checkpoints.is_due(connection, now, **OFTEN)
        assert checkpoints.is_due(connection, now + GIVEN_UP, **OFTEN)
        assert checkpoints.find(connection, 10**9) is None


def test_a_complete_checkpoint_is_found_from_its_commit_on_and_old_ones_go(database: Database) -> None:
    def make(tx: Transaction, seq: int) -> int:
        number = checkpoints.begin(tx, every=timedelta(), commits=0)
        assert number is not None
        checkpoints.add_part(tx, number, 0, checkpoints.encode([]))
        checkpoints.complete(tx, number, seq, kept=2)
        return number

    made = {seq: database.write(lambda tx, seq=seq: make(tx, seq)) for seq in (5, 7, 9)}  # type: ignore[misc]
    with database.read() as connection:
        found = {seq: checkpoints.find(connection, seq) for seq in (6, 7, 8, 10)}
        assert {seq: None if each is None else each.id for seq, each in found.items()} == {
            6: None,
            7: made[7],
            8: made[7],
            10: made[9],
        }
        assert found[10] is not None
        assert list(checkpoints.read(connection, found[10])) == []
