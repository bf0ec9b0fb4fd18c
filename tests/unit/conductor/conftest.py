# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilonova.scenario.model import SimulatedHost
from support.cell import IMAGE, Cell, NewCell, new_cell
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
