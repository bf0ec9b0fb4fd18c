# SPDX-License-Identifier: Apache-2.0
import logging
from pathlib import Path

import pytest

from kilonova.cli.wiring import database_lock
from kilonova.cli.wiring.database_lock import lock_database, warn_if_exposed
from kilonova.db.database import Database
from kilonova.errors import ConfigurationError


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(f"sqlite:///{tmp_path / 'new' / 'kilonova.db'}")


def test_a_second_control_process_is_refused_until_the_first_one_ends(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_lock, "_LOCK_WAIT_S", 0.0)
    lock = lock_database(database)
    assert lock is not None
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    with pytest.raises(ConfigurationError, match="Another control process uses the SQLite database"):
        lock_database(database)
    lock.close()
    again = lock_database(database)
    assert again is not None
    again.close()


def test_a_folder_that_cannot_be_made_is_named_with_its_option(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"\[database\] connection: .*file/kilonova\.db\.lock"):
        lock_database(Database(f"sqlite:///{tmp_path / 'file' / 'kilonova.db'}"))


@pytest.mark.parametrize(("mode", "is_told"), [(0o600, False), (0o640, True), (0o604, True)])
def test_a_database_that_others_may_read_is_logged(
    tmp_path: Path, mode: int, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "kilonova.db"
    file.touch()
    file.chmod(mode)
    with caplog.at_level(logging.WARNING):
        warn_if_exposed(Database(f"sqlite:///{file}"))
    message = f"kilonova.db is accessible to other users (mode {mode & 0o77:03o}): chmod it to 600"
    assert (message in caplog.text) is is_told
    assert file.stat().st_mode & 0o777 == mode, "the mode is the operator's"
