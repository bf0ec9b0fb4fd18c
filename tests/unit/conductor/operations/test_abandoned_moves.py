# SPDX-License-Identifier: Apache-2.0
"""Resizes that nobody can confirm or revert any more, since the state of their server was reset; what comes then."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kilonova.compute.virt.fake.driver import FakeDriver
from kilonova.db import instances, server_migrations
from kilonova.errors import DriverError
from kilonova.model.instance import VmState
from kilonova.model.server_migration import OPEN, MigrationStatus
from support.cell import BIGGER, IMAGE, SMALL, Cell, NewCell, asker, host
from support.evacuations import having, migrations, room
from support.folder_images import FolderImages

HOSTS = (host("node1"), host("node2", memory_mib=8192), host("node3", memory_mib=6144))
Act = Callable[[Cell, str], None]


@pytest.fixture
def cell(cell_of: NewCell) -> Cell:
    started: Cell = cell_of(*HOSTS)
    return started


def resized_and_reset(cell: Cell, state: VmState = VmState.ACTIVE) -> str:
    (uuid,) = cell.boot(force_host="node1", group=cell.add_group("soft-anti-affinity"))
    cell.bus.run()
    cell.resize(uuid)
    cell.bus.run()
    assert cell.instance(uuid).host == "node2"
    cell.conductor.operations.states.reset(cell.instance(uuid), state, asker("req-reset"))
    return uuid


def shrink(cell: Cell, uuid: str) -> None:
    cell.resize(uuid, replace(SMALL, root_gib=BIGGER.root_gib))


def return_to_the_source(cell: Cell, uuid: str) -> None:
    cell.migrate(uuid, "node1")


MOVES = {
    "resize": shrink,
    "migrate": Cell.migrate,
    "migrate back": return_to_the_source,
    "live-migrate": Cell.live_migrate,
    "evacuate": Cell.evacuate,
}


@pytest.mark.parametrize("end", [None, Cell.confirm, Cell.revert])
@pytest.mark.parametrize("move", MOVES)
def test_the_next_move_gives_its_source_up(cell: Cell, move: str, end: Act | None) -> None:
    uuid = resized_and_reset(cell)
    MOVES[move](cell, uuid)
    cell.work_off()
    if cell.instance(uuid).vm_state is VmState.RESIZED and end is not None:
        end(cell, uuid)
        cell.work_off()
    assert migrations(cell, uuid)[-1] == ("error", "node1", "node2")
    cell.check()
    cell.confirm_unconfirmed()
    cell.work_off()
    cell.check()


def test_so_it_is_when_the_source_is_away(cell: Cell) -> None:
    uuid = resized_and_reset(cell)
    cell.bus.cut_off = {"node1"}
    cell.migrate(uuid, "node3")
    cell.work_off()
    cell.confirm(uuid)
    cell.work_off()
    assert (cell.instance(uuid).host, room(cell)) == ("node3", {"node3": 1})
    assert having(cell, uuid) == ["node1", "node3"], "one that nobody could ask yet"
    cell.reconnect()
    cell.work_off()
    assert having(cell, uuid) == ["node3"]
    cell.check()


def test_so_it_is_after_a_delete_that_failed(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    (uuid,) = cell.boot(force_host="node1")
    cell.bus.run()
    cell.resize(uuid)
    cell.bus.run()

    def fail(*_args: object) -> None:
        raise DriverError("No.")

    with monkeypatch.context() as patch:
        patch.setattr(FakeDriver, "destroy", fail)
        cell.delete(uuid)
        cell.bus.run()
    assert cell.instance(uuid).vm_state is VmState.ERROR
    cell.evacuate(uuid)
    cell.work_off()
    assert cell.instance(uuid).vm_state is VmState.ACTIVE
    cell.check()


@pytest.mark.parametrize("offload", [True, False])
def test_so_it_is_when_the_server_is_shelved(cell_of: NewCell, tmp_path: Path, *, offload: bool) -> None:
    images = FolderImages(tmp_path / "images")
    images.add(IMAGE.id, b"what servers are made of")
    cell = cell_of(*HOSTS, images=images)
    uuid = resized_and_reset(cell)
    cell.shelve(uuid, offload=offload)
    cell.work_off()
    assert (migrations(cell, uuid), "node1" in room(cell)) == ([("error", "node1", "node2")], False)
    cell.check()


@pytest.mark.parametrize("status", [MigrationStatus.FINISHED, MigrationStatus.CONFIRMING, MigrationStatus.REVERTING])
def test_one_that_has_arrived_holds_its_source_wherever_the_server_is(cell: Cell, status: MigrationStatus) -> None:
    uuid = resized_and_reset(cell)
    migration = cell.open_migration(uuid)
    assert migration is not None
    cell.database.write(lambda tx: server_migrations.set_status(tx, migration.uuid, OPEN, status))
    cell.database.write(lambda tx: instances.change(tx, uuid, host="node3", node="node3"))
    with cell.database.read() as connection:
        assert [side.host for side in server_migrations.other_sides(connection)] == ["node1"]
