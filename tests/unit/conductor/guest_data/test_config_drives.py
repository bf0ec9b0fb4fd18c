# SPDX-License-Identifier: Apache-2.0
"""Whatever makes a guest anew makes its config drive anew, wherever that is; passwords are forgotten in time."""

from pathlib import Path

import pytest

from kilonova.conductor.guest_data.config_drives import AdminPasswords
from support.cell import IMAGE, Cell, host, new_cell
from support.drives import find_drive
from support.folder_images import FolderImages


@pytest.fixture
def cell(sqlite_template: Path, tmp_path: Path) -> Cell:
    images = FolderImages(tmp_path / "images")
    images.add(IMAGE.id, b"what disks are made of")
    return new_cell(sqlite_template, tmp_path, host("node1"), host("node2"), images=images)


def shows(cell: Cell, uuid: str) -> bool:
    cell.work_off()
    if cell.image_remover is not None:
        cell.image_remover.turn()
    cell.check()
    return find_drive(cell.folder / "hypervisors", uuid) is not None


def test_a_shelved_server_has_it_again_when_it_comes_back(cell: Cell) -> None:
    (uuid,) = cell.boot(config_drive=True)
    assert shows(cell, uuid)
    cell.shelve(uuid)
    assert not shows(cell, uuid)
    cell.unshelve(uuid)
    assert shows(cell, uuid)


def test_it_goes_where_the_guest_goes(cell: Cell) -> None:
    (uuid,) = cell.boot(config_drive=True, force_host="node1")
    cell.work_off()
    cell.live_migrate(uuid, "node2")
    assert shows(cell, uuid)
    assert cell.instance(uuid).host == "node2"
    cell.delete(uuid)
    assert not shows(cell, uuid)


def test_passwords_are_kept_until_they_are_forgotten() -> None:
    passwords = AdminPasswords()
    passwords.remember(["a", "b"], "heliotrope")
    passwords.remember(["c"], None)
    assert [passwords.find(uuid) for uuid in "abc"] == ["heliotrope", "heliotrope", None]
    passwords.forget("a")
    passwords.forget("a")
    assert passwords.find("a") is None
    assert "heliotrope" not in repr(passwords)
