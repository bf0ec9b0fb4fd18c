# SPDX-License-Identifier: Apache-2.0
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.db.database import Database


@pytest.fixture
def sqlite(sqlite_template: Path, tmp_path: Path) -> Iterator[Database]:
    """An upgraded SQLite database of its own."""
    shutil.copy(sqlite_template, tmp_path / "kilonova.db")
    database = Database(f"sqlite:///{tmp_path / 'kilonova.db'}")
    yield database
    database.close()
