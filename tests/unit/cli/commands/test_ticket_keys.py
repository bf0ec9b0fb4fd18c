# SPDX-License-Identifier: Apache-2.0
"""``kilonova compute rotate-ticket-key``, beside control processes or not."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kilonova.cli.main import main
from kilonova.db import ticket_keys
from kilonova.db.database import Database
from kilonova.db.ticket_keys import StoredKey


@pytest.fixture
def database(tmp_path: Path, sqlite_template: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    monkeypatch.chdir(tmp_path)
    shutil.copy(sqlite_template, tmp_path / "kilonova.db")
    (tmp_path / "control.conf").write_text(f"[database]\nconnection = sqlite:///{tmp_path}/kilonova.db\n")
    with closing(Database(f"sqlite:///{tmp_path}/kilonova.db")) as database:
        database.write(ticket_keys.ensure)
        yield database


def keys(database: Database) -> tuple[StoredKey, ...]:
    with database.read() as connection:
        return ticket_keys.list_all(connection)


def rotate(*words: str) -> int:
    return main(["compute", "rotate-ticket-key", "--config-file", "control.conf", *words])


def test_the_old_key_stays_for_the_tickets_that_it_signed(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    (before,) = keys(database)
    assert rotate() == 0
    first, newest = keys(database)
    assert first == before
    assert newest.secret != before.secret
    shown = capsys.readouterr().out
    assert "within a minute" in shown
    assert newest.secret.hex() not in shown


def test_old_keys_are_dropped_when_they_are_to_be_void(database: Database) -> None:
    (before,) = keys(database)
    assert rotate() == rotate("--drop-old") == 0
    (newest,) = keys(database)
    assert newest.id > before.id


def test_a_cloud_that_is_not_there_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compute", "rotate-ticket-key", "--data", str(tmp_path / "none")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
