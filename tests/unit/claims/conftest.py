# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cell import Cell, new_cell

from kilonova.scenario.model import SimulatedHost


@pytest.fixture
def cell_of(sqlite_template: Path, tmp_path: Path) -> Iterator[Callable[..., Cell]]:
    """Starts a cell with the hosts given; its database is closed afterwards."""
    started: list[Cell] = []

    def start(*hosts: SimulatedHost, **options: Any) -> Cell:
        started.append(new_cell(sqlite_template, tmp_path, *hosts, **options))
        return started[-1]

    yield start
    for cell in started:
        cell.database.close()
