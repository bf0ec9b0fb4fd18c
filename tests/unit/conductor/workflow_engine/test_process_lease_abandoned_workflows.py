# SPDX-License-Identifier: Apache-2.0
"""An operation that was stored while nobody could be told so goes on all the same."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.conductor.workflow_engine.process_lease import ProcessLease
from kilonova.db import workflows
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.model.instance import VmState
from kilonova.model.new_image import NewImage
from support.cell import IMAGE, Cell, NewCell, asker, host
from support.folder_images import FolderImages


class Restless:
    """A cell, a clock, and who looks for what was forgotten."""

    def __init__(self, cell: Cell) -> None:
        self.cell, self.seconds = cell, 0.0
        conductor = cell.conductor
        self.process_lease = ProcessLease(
            cell.database, conductor.runner, conductor.process, conductor.lease, clock=lambda: self.seconds
        )

    def stop_and_forget(self, monkeypatch: pytest.MonkeyPatch, uuid: str) -> None:
        """Store the workflow of a stop two minutes ago; whoever did died of it."""
        with monkeypatch.context() as patched:
            patched.setattr(self.cell.conductor.runner, "begin", lambda *_: None)
            self.cell.power(uuid, "stop")
        self.grow_old()

    def grow_old(self) -> None:
        """Let two minutes pass for what is stored."""
        old = sa.update(t.workflows)
        self.cell.database.write(lambda tx: tx.execute(old.values(created_at=tx.now - timedelta(minutes=2))))

    def hear_of_a_lost_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have the next look find what was forgotten, if anything was."""
        monkeypatch.setattr(type(self.cell.database), "unheard_writes", property(lambda _: 1))
        assert self.look() == 0
        self.seconds += 61.0

    def look(self) -> int:
        found = self.process_lease.resume_unacknowledged()
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
    restless.hear_of_a_lost_answer(monkeypatch)
    assert (restless.look(), cell.instance(uuid).vm_state) == (1, VmState.STOPPED)
    assert restless.look() == 0


def test_what_is_under_way_is_left_to_itself(cell_of: NewCell, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = cell_of(host("a"))
    (uuid,) = cell.boot()
    cell.work_off()
    restless = Restless(cell)
    cell.power(uuid, "stop")
    restless.hear_of_a_lost_answer(monkeypatch)
    assert restless.look() == 0


def test_what_waits_for_its_image_to_be_registered_is_not_forgotten(
    cell_of: NewCell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    images = FolderImages(tmp_path / "images")
    images.add(IMAGE.id, b"what servers are made of")
    cell = cell_of(host("a"), images=images)
    (uuid,) = cell.boot()
    cell.work_off()
    restless = Restless(cell)
    restless.hear_of_a_lost_answer(monkeypatch)
    begun: list[int] = []

    def slowly() -> None:
        restless.grow_old()
        begun.append(restless.look())
        images.create(NewImage("slow", "image", properties={"instance_uuid": uuid, "image_type": "snapshot"}))

    cell.conductor.operations.snapshots.create_image(uuid, "slow", asker("req-1"), slowly)
    cell.work_off()
    assert begun == [0]
    assert images.all()["slow"]["data"] is not None


def test_a_big_request_that_is_still_being_stored_is_not_forgotten(
    cell_of: NewCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = cell_of(host("a", vcpus=8, memory_mib=8 * 512), piece=2)
    restless = Restless(cell)
    restless.hear_of_a_lost_answer(monkeypatch)
    begun: list[int] = []
    write = cell.database.write

    def slow_write(run: Callable[[Transaction], Any]) -> Any:
        done = write(run)
        monkeypatch.setattr(cell.database, "write", write)
        restless.grow_old()
        begun.append(restless.look())
        return done

    monkeypatch.setattr(cell.database, "write", slow_write)
    uuids = cell.boot(3)
    cell.work_off()
    assert begun == [0]
    assert {cell.instance(each).vm_state for each in uuids} == {VmState.ACTIVE}


def test_what_ends_while_it_is_looked_for_is_not_begun_again(cell_of: NewCell, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = cell_of(host("a"))
    (uuid,) = cell.boot()
    cell.work_off()
    restless = Restless(cell)
    restless.hear_of_a_lost_answer(monkeypatch)
    cell.power(uuid, "stop")
    restless.grow_old()
    of_owner = workflows.of_owner

    def ending_meanwhile(connection: Connection, owner: str) -> tuple[WorkflowRow, ...]:
        rows = of_owner(connection, owner)
        cell.work_off()
        return rows

    monkeypatch.setattr(workflows, "of_owner", ending_meanwhile)
    assert restless.look() == 0
