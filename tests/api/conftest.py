# SPDX-License-Identifier: Apache-2.0
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from compute_cloud import Cloud, start_cloud

from kilonova.db import schema
from kilonova.db.database import Database


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with every table and the standard vocabulary."""
    file = tmp_path_factory.mktemp("template") / "kilonova.db"
    database = Database(f"sqlite:///{file}")
    schema.upgrade(database)
    database.close()
    return file


@pytest.fixture
def cloud(empty_database: Path, tmp_path: Path) -> Iterator[Cloud]:
    """A cloud without hosts."""
    file = tmp_path / "kilonova.db"
    shutil.copy(empty_database, file)
    started = start_cloud(file)
    yield started
    started.database.close()
