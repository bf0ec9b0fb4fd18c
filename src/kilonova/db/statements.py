# SPDX-License-Identifier: Apache-2.0
"""Statements that several resources need."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.sql.dml import Insert

from kilonova.db.database import Transaction


def insert_missing(tx: Transaction, table: sa.Table, row: Mapping[str, Any]) -> bool:
    """Insert ``row`` unless a unique key of it is taken, also by a commit that this transaction cannot see yet.

    Returns whether the row is new.
    """
    backend = tx.connection.dialect.name
    statement: Insert
    if backend == "sqlite":
        statement = sqlite.insert(table).on_conflict_do_nothing()
    elif backend == "postgresql":
        statement = postgresql.insert(table).on_conflict_do_nothing()
    else:
        statement = mysql.insert(table).prefix_with("IGNORE")
    # Where ids come back with the insert, the count is kept only on request.
    return tx.execute(statement.execution_options(preserve_rowcount=True), dict(row)).rowcount == 1


def mapping(connection: Connection, statement: sa.Select[Any]) -> dict[Any, Any]:
    """Return the rows of a statement with two columns as first column → second."""
    return {row[0]: row[1] for row in connection.execute(statement)}
