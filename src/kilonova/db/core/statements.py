# SPDX-License-Identifier: Apache-2.0
"""Statements that several resources need."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.sql.dml import Insert

from kilonova.db.core.prepared import Prepared
from kilonova.db.core.tables import COLLATION
from kilonova.db.core.transaction import Transaction


def insert_missing(tx: Transaction, table: sa.Table, row: Mapping[str, Any]) -> bool:
    """Insert ``row`` unless a unique key of it is taken, also by a commit that this transaction cannot see yet.

    Returns whether the row is new.
    """
    statement = _insert_missing(table, tx.connection.dialect.name, tuple(row))
    return statement.run(tx.connection, **row) == 1


@cache
def _insert_missing(table: sa.Table, backend: str, columns: tuple[str, ...]) -> Prepared:
    statement: Insert
    if backend == "sqlite":
        statement = sqlite.insert(table).on_conflict_do_nothing()
    elif backend == "postgresql":
        statement = postgresql.insert(table).on_conflict_do_nothing()
    else:
        statement = mysql.insert(table).prefix_with("IGNORE")
    return Prepared(statement.values({name: sa.bindparam(name, type_=table.c[name].type) for name in columns}))


def mapping(connection: Connection, statement: sa.Select[Any] | Prepared, **parameters: Any) -> dict[Any, Any]:
    """Return the rows of a statement with two columns as first column → second."""
    if isinstance(statement, Prepared):
        return dict(statement.rows(connection, **parameters))
    return {row[0]: row[1] for row in connection.execute(statement, parameters)}


_SQLITE: sa.Dialect = sqlite.dialect()
_POSTGRESQL: sa.Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
_MYSQL: sa.Dialect = mysql.dialect()

_GIVEN = "given"
#: Makes a statement from the columns of the rows that are given.
Build = Callable[[Mapping[str, sa.ColumnElement[Any]]], Any]


class ManyRows:
    """A statement that takes any number of rows, each with values of its own, in one go.

    Many rows travel as one JSON text; a single one as plain parameters, which every server plans and runs faster.

    ``columns``: name → type of what each row brings, as many as ``build`` needs. ``build`` makes an UPDATE, or the
    SELECT of an INSERT, from them; it may also use bound parameters, which are the same for all rows.
    An UPDATE needs rows that touch different rows of the table.
    """

    def __init__(self, columns: Mapping[str, sa.types.TypeEngine[Any]], build: Build) -> None:
        parameters = {name: sa.bindparam(f"{_GIVEN}_{name}", type_=kind) for name, kind in columns.items()}
        self._one = Prepared(build(parameters))
        self._many = {backend: Prepared(build(dict(_given(backend, columns).c))) for backend in _TABLES_OF_JSON}

    def run(self, tx: Transaction, rows: Sequence[Mapping[str, Any]], **same: Any) -> int:
        """Run the statement with ``rows`` and the parameters that are the ``same`` for all; return the rows matched."""
        if not rows:
            return 0
        statement, given = self._for(tx, rows)
        return statement.run(tx.connection, **given, **same)

    def rows(self, tx: Transaction, rows: Sequence[Mapping[str, Any]], **same: Any) -> list[tuple[Any, ...]]:
        """Do the same with a statement that returns something of each row, and return that."""
        if not rows:
            return []
        statement, given = self._for(tx, rows)
        return statement.rows(tx.connection, **given, **same)

    def _for(self, tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> tuple[Prepared, dict[str, Any]]:
        if len(rows) == 1:
            return self._one, {f"{_GIVEN}_{name}": value for name, value in rows[0].items()}
        return self._many[tx.connection.dialect.name], {"given_rows": orjson.dumps(rows).decode()}


def insert_many(
    table: sa.Table, columns: Mapping[str, str], *, returning: Sequence[str] = (), **same: sa.ColumnElement[Any]
) -> ManyRows:
    """Return the INSERT of many rows. ``columns``: column → name in the rows; ``same``: column → value for all.

    ``returning``: columns of the new rows that it returns.
    """

    def build(given: Mapping[str, sa.ColumnElement[Any]]) -> Any:
        values = {column: given[name] for column, name in columns.items()} | same
        insert = sa.insert(table).from_select(list(values), sa.select(*values.values()), include_defaults=False)
        return insert.returning(*(table.c[name] for name in returning)) if returning else insert

    return ManyRows({name: table.c[column].type for column, name in columns.items()}, build)


def _given(backend: str, columns: Mapping[str, sa.types.TypeEngine[Any]]) -> sa.Subquery:
    render, spelt = _TABLES_OF_JSON[backend]
    described = ", ".join(spelt(name, kind) for name, kind in columns.items())
    return sa.text(render.format(described)).columns(**columns).subquery("given")


def _sqlite_column(name: str, _kind: sa.types.TypeEngine[Any]) -> str:
    return f"json_extract(value, '$.{name}') AS {_SQLITE.identifier_preparer.quote(name)}"


def _postgresql_column(name: str, kind: sa.types.TypeEngine[Any]) -> str:
    return f"{_POSTGRESQL.identifier_preparer.quote(name)} {kind.compile(_POSTGRESQL)}"


def _mariadb_column(name: str, kind: sa.types.TypeEngine[Any]) -> str:
    spelt = kind.compile(_MYSQL)
    # A comparison with a column of another collation would find no index.
    collated = f" CHARSET utf8mb4 COLLATE {COLLATION}" if isinstance(kind, sa.String) else ""
    return f"{_MYSQL.identifier_preparer.quote(name)} {spelt}{collated} PATH '$.{name}' ERROR ON ERROR"


_JSON_TABLE = "SELECT * FROM JSON_TABLE(:given_rows, '$[*]' COLUMNS({})) AS listed"
_TABLES_OF_JSON: Mapping[str, tuple[str, Callable[[str, sa.types.TypeEngine[Any]], str]]] = {
    "sqlite": ("SELECT {} FROM json_each(:given_rows)", _sqlite_column),
    "postgresql": ("SELECT * FROM json_to_recordset(CAST(:given_rows AS json)) AS listed({})", _postgresql_column),
    "mysql": (_JSON_TABLE, _mariadb_column),
    "mariadb": (_JSON_TABLE, _mariadb_column),
}
