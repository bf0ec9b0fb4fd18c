# SPDX-License-Identifier: Apache-2.0
import sqlite3
from contextlib import closing
from pathlib import Path

from kilonova.db.core.sqlite_checkpoint import checkpoint_file


def test_the_file_alone_is_a_complete_copy(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (x)")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.commit()
        checkpoint_file(str(file))
        copy = tmp_path / "copy.db"
        copy.write_bytes(file.read_bytes())
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT x FROM t").fetchall() == [(1,)]


def test_a_missing_file_and_a_file_that_is_no_database_are_left_alone(tmp_path: Path) -> None:
    checkpoint_file(str(tmp_path / "none.db"))
    assert not list(tmp_path.iterdir())
    (tmp_path / "text.db").write_text("no database " * 100)
    checkpoint_file(str(tmp_path / "text.db"))
    assert (tmp_path / "text.db").read_text().startswith("no database")
