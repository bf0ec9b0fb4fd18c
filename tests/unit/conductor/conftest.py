# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cell import Cell, new_cell

from kilonova.scenario.model import SimulatedHost

NewCell = Callable[..., Cell]


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
