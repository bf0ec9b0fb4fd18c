# SPDX-License-Identifier: Apache-2.0
"""An operation that was stored while nobody could be told so goes on all the same."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from kilonova.conductor.membership import Membership
from kilonova.db import tables as t
from kilonova.db.transaction import Transaction
from kilonova.model.instance import VmState
from support.cell import Cell, NewCell, host


class Restless:
    """A cell, a clock, and who looks for what was forgotten."""

    def __init__(self, cell: Cell) -> None:
        self.cell, self.seconds = cell, 0.0
        conductor = cell.conductor
        self.membership = Membership(
            cell.database, conductor.runner, conductor.process, conductor.lease, clock=lambda: self.seconds
        )

    def stop_and_forget(self, monkeypatch: pytest.MonkeyPatch, uuid: str) -> None:
        """Store the workflow of a stop two minutes ago; whoever did died of it."""
        with monkeypatch.context() as patched:
            patched.setattr(self.cell.conductor.runner, "begin", lambda *_: None)
            self.cell.power(uuid, "stop")

        def grow_old(tx: Transaction) -> None:
            tx.execute(sa.update(t.workflows).values(created_at=tx.now - timedelta(minutes=2)))

        self.cell.database.write(grow_old)

    def look(self) -> int:
        found = self.membership.find_forgotten()
        self.cell.work_off()
        return found


def test_it_is_found_a_while_after_a_write_that_nobody_heard_of(
    cell_of: NewCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = cell_of(host("a"))
    (uuid,) = cell.boot()
    cell.work_off()
    restless = Restless(cell)
    restless.stop_and_forget(monkeypatch, uuid)
    assert restless.look() == 0  # nothing says that anything was forgotten
    monkeypatch.setattr(type(cell.database), "unheard_writes", property(lambda _: 1))
    assert restless.look() == 0
    restless.seconds = 61.0
    assert (restless.look(), cell.instance(uuid).vm_state) == (1, VmState.STOPPED)
    assert restless.look() == 0


def test_what_is_under_way_is_left_to_itself(cell_of: NewCell, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = cell_of(host("a"))
    (uuid,) = cell.boot()
    cell.work_off()
    restless = Restless(cell)
    cell.power(uuid, "stop")
    monkeypatch.setattr(type(cell.database), "unheard_writes", property(lambda _: 1))
    restless.look()
    restless.seconds = 61.0
    assert restless.look() == 0
