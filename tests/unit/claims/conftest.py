# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilonova.scenario.model import SimulatedHost
from support.cell import Cell, NewCell, new_cell


@pytest.fixture
def cell_of(sqlite_template: Path, tmp_path: Path) -> Iterator[NewCell]:
    """Starts a cell with the hosts given; its database is closed afterwards."""
    started: list[Cell] = []

    def start(*hosts: SimulatedHost, **options: Any) -> Cell:
        started.append(new_cell(sqlite_template, tmp_path, *hosts, **options))
        return started[-1]

    yield start
    for cell in started:
        cell.database.close()
