# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilonova.scenario.model import SimulatedHost
from support.cell import IMAGE, Cell, NewCell, Running, host, new_cell
from support.folder_images import FolderImages


@pytest.fixture
def cell_of(sqlite_template: Path, tmp_path: Path) -> Iterator[NewCell]:
    """Starts a cell with the hosts given; its database is closed afterwards."""
    started: list[Cell] = []

    def start(*hosts: SimulatedHost, **options: Any) -> Cell:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        started.append(new_cell(sqlite_template, folder, *hosts, **options))
        return started[-1]

    yield start
    for cell in started:
        cell.database.close()


@pytest.fixture
def images(tmp_path: Path) -> FolderImages:
    """An image service with the image of all servers."""
    images = FolderImages(tmp_path / "images")
    images.add(IMAGE.id, b"what servers are made of")
    return images


@pytest.fixture
def running(cell_of: NewCell) -> Running:
    """A server that runs on node1, and another host."""
    cell = cell_of(host("node1"), host("node2"))
    (uuid,) = cell.boot(force_host="node1")
    cell.bus.run()
    return cell, uuid


@pytest.fixture
def running_of_image(cell_of: NewCell, images: FolderImages) -> Running:
    """A server that runs on the only host, and an image service that takes snapshots."""
    cell = cell_of(host("node1"), images=images)
    (uuid,) = cell.boot()
    cell.work_off()
    return cell, uuid


@pytest.fixture
def left_for_node2(cell_of: NewCell) -> Running:
    """A server that was on node1 when a request looked at it."""
    cell = cell_of(host("node1"), host("node2"), host("node3"))
    (uuid,) = cell.boot(force_host="node1")
    cell.work_off()
    cell.live_migrate(uuid, "node2")
    cell.work_off()
    return cell, uuid
