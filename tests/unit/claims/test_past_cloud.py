# SPDX-License-Identifier: Apache-2.0
"""The walk through past states: each equals its checkpoint with the commits after it, also beyond gaps of the log."""

import random

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.claims.edited_changes import EditedChanges
from kilonova.claims.past_cloud import PastCloud, UnknownPast
from kilonova.db import checkpoints
from kilonova.db.core import change_log
from kilonova.db.core import tables as t
from kilonova.mirror.mirror import Mirror
from kilonova.planning.policy_change import PolicyChange
from support.cell import Cell, NewCell
from support.decision_histories import History, checkpoint, some_hosts
from support.mirrors import assert_equal


def past(connection: Connection) -> PastCloud:
    return PastCloud(connection, EditedChanges(PolicyChange()))


def at_once(connection: Connection, seq: int) -> Mirror:
    begun = checkpoints.find(connection, seq)
    assert begun is not None
    commits = change_log.between(connection, begun.seq, seq)
    assert commits is not None
    mirror = Mirror.of(checkpoints.read(connection, begun), begun.seq, now=0.0)
    mirror.replay(commits)
    return mirror


@pytest.fixture
def cell(cell_of: NewCell) -> Cell:
    chance = random.Random(5)
    cell = cell_of(*some_hosts(chance, 4))
    story = History(cell, chance)
    story.run(6)
    checkpoint(cell)
    story.run(6)
    return cell


def test_a_walk_goes_through_every_state(cell: Cell) -> None:
    with cell.database.read() as connection:
        oldest = checkpoints.oldest(connection)
        assert oldest is not None
        walk = past(connection)
        for seq in range(oldest, cell.mirror.seq + 1, 7):
            assert_equal(walk.at(seq), at_once(connection, seq))
        assert_equal(walk.at(cell.mirror.seq), at_once(connection, cell.mirror.seq))
        with pytest.raises(UnknownPast, match="older than the oldest checkpoint"):
            past(connection).at(oldest - 1)


def test_a_gap_ends_at_the_next_checkpoint(cell: Cell) -> None:
    with cell.database.read() as connection:
        seqs = list(connection.execute(sa.select(t.checkpoints.c.seq).order_by(t.checkpoints.c.seq)).scalars())
    first, second = seqs[0], seqs[-1]
    gone = first + 3
    cell.database.write(lambda tx: tx.execute(sa.delete(t.change_log).where(t.change_log.c.seq == gone)))
    with cell.database.read() as connection:
        walk = past(connection)
        assert walk.at(gone - 1).seq == gone - 1
        for seq in (gone, second - 1):
            with pytest.raises(UnknownPast, match="change log is incomplete"):
                walk.at(seq)
        assert_equal(walk.at(second + 2), at_once(connection, second + 2))


def test_a_newer_release_is_told(cell: Cell) -> None:
    last = cell.mirror.seq
    changed = sa.update(t.change_log).where(t.change_log.c.seq == last).values(body=b'{"version": 99, "changes": []}')
    cell.database.write(lambda tx: tx.execute(changed))
    with cell.database.read() as connection, pytest.raises(UnknownPast, match="newer release"):
        past(connection).at(last)


def test_a_database_without_checkpoints_has_no_past(cell_of: NewCell) -> None:
    cell = cell_of(*some_hosts(random.Random(1), 1))
    with cell.database.read() as connection, pytest.raises(UnknownPast):
        past(connection).at(cell.mirror.seq)
