# SPDX-License-Identifier: Apache-2.0
"""Adapts OpenStack services to SQLite: prevents half-migrated schemas and the error "database is locked"."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy.engine import Engine

_READS = frozenset({"SELECT", "PRAGMA", "EXPLAIN"})


def bring_up_to_date(database: Path, version: str, migrate: Callable[[Path], None]) -> None:
    """Migrate ``database`` to the schema of ``version``, unless it has that schema already.

    ``version``: any text that changes with the schema.
    SQLite runs most schema changes outside a transaction, so a migration that was killed half way could never be
    completed. Therefore a copy is migrated, which then replaces the database.
    """
    mark = database.with_suffix(".version")
    if database.exists() and mark.exists() and mark.read_text(encoding="utf-8") == version:
        return
    part = database.with_suffix(".part")
    for suffix in ("", "-wal", "-shm", "-journal"):
        part.with_name(part.name + suffix).unlink(missing_ok=True)
    if database.exists():
        with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(part)) as copy:
            source.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            source.backup(copy)
    migrate(part)
    with closing(sqlite3.connect(part)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")  # SQLite stores the journal mode in the file
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for suffix in ("-wal", "-shm"):  # remove the old database's WAL and index files
        database.with_name(database.name + suffix).unlink(missing_ok=True)
    part.replace(database)
    mark.write_text(version, encoding="utf-8")


def lock_on_first_write(engines: Any = Engine) -> None:
    """Make transactions take SQLite's write lock at their first write, for one engine or for all engines.

    oslo.db opens each transaction with a plain BEGIN. If a transaction reads and then writes, and another transaction
    has written in between, the write of the first transaction fails immediately despite the busy timeout, so that
    concurrent clients would get a 500. With this function, reads before the first write run outside the transaction, as
    under the isolation level READ COMMITTED, which these services expect of a database server.
    """
    sqlalchemy.event.listen(engines, "before_cursor_execute", _begin_late, retval=True)


def _begin_late(
    connection: Any, cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool
) -> tuple[str, Any]:
    if connection.dialect.name == "sqlite":
        if statement == "BEGIN":
            return "SELECT 1", parameters
        if not cursor.connection.in_transaction and statement.lstrip()[:7].split(None, 1)[0].upper() not in _READS:
            cursor.execute("BEGIN IMMEDIATE")
    return statement, parameters
