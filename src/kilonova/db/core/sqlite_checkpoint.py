# SPDX-License-Identifier: Apache-2.0
"""Makes the file of an SQLite database complete without its write-ahead log. Needs no SQLAlchemy."""

import contextlib
import sqlite3
from pathlib import Path


def checkpoint_file(name: str) -> None:
    """Checkpoint the write-ahead log of an SQLite database, so that the database file alone is a complete copy.

    No other process may write meanwhile. Does nothing if the file is missing, and ignores errors of SQLite.
    """
    if name.startswith("file:") or not Path(name).exists():
        return
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(name, timeout=5)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
