# SPDX-License-Identifier: Apache-2.0
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.claims.checkpointer import Checkpointer
from kilonova.db import checkpoints
from kilonova.db.core import tables as t
from kilonova.db.database import Database
from support.cell import NewCell, host
from support.waiting import wait_until


def stored(database: Database) -> list[int | None]:
    """The seqs of the checkpoints there are, None for one that is not complete."""
    with database.read() as connection:
        return list(connection.execute(sa.select(t.checkpoints.c.seq).order_by(t.checkpoints.c.id)).scalars())


def test_one_is_taken_in_the_background(cell_of: NewCell) -> None:
    database = cell_of(host("node1")).database
    checkpointer = Checkpointer(database, 2)
    checkpointer.start()
    wait_until(lambda: any(stored(database)), "a checkpoint is taken")
    checkpointer.stop()
    (seq,) = stored(database)
    assert seq


def test_none_is_taken_where_none_is_to_be_kept(cell_of: NewCell) -> None:
    database = cell_of(host("node1")).database
    checkpointer = Checkpointer(database, 0)
    checkpointer.start()
    checkpointer.stop()
    assert stored(database) == []


def test_one_that_is_stopped_leaves_nothing(cell_of: NewCell) -> None:
    database = cell_of(host("node1")).database
    checkpointer = Checkpointer(database, 2)
    checkpointer.stop()
    assert checkpointer.take_if_due() is None
    assert stored(database) == []


def test_one_that_breaks_leaves_nothing_and_is_tried_again(cell_of: NewCell, caplog: pytest.LogCaptureFixture) -> None:
    cell = cell_of(host("node1"))
    database = BrokenAtParts(str(cell.database.url))
    checkpointer = Checkpointer(database, 2)
    checkpointer.start()
    wait_until(lambda: caplog.records, "something is logged")
    checkpointer.stop()
    assert "No checkpoint was taken" in caplog.text
    assert stored(cell.database) == []
    assert Checkpointer(cell.database, 2).take_if_due() is not None
    database.close()


class BrokenAtParts(Database):
    """Takes everything but the second write."""

    writes = 0

    def submit_batched(self, run: Any, item: Any) -> "Future[Any]":
        self.writes += 1
        if self.writes == 2:
            raise ZeroDivisionError
        return super().submit_batched(run, item)

    def write_batched(self, run: Any, item: Any) -> Any:
        return self.submit_batched(run, item).result()


def test_one_that_nobody_completes_holds_others_up_for_a_while(cell_of: NewCell) -> None:
    database = cell_of(host("node1")).database
    database.write(lambda tx: checkpoints.begin(tx, every=timedelta(0), commits=1))
    assert Checkpointer(database, 2, every=timedelta(0)).take_if_due() is None
    then = checkpoints.GIVEN_UP
    database.write(lambda tx: tx.execute(sa.update(t.checkpoints).values(created_at=tx.now - then)))
    seq = Checkpointer(database, 2).take_if_due()
    assert stored(database) == [seq]
