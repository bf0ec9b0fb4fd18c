# SPDX-License-Identifier: Apache-2.0
"""Statements that several resource modules use: conditional inserts, and statements over many rows."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, TypeVar

import orjson
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.sql.dml import Insert

from kilonova.db.core.prepared import Prepared, Sent
from kilonova.db.core.tables import COLLATION
from kilonova.db.core.transaction import Transaction

Value = TypeVar("Value")
#: Number of values in one IN list. SQLite accepts at most 32,766 parameters.
_NAMED_TOGETHER = 500


def pieces(values: Iterable[Value], length: int = _NAMED_TOGETHER) -> Iterator[list[Value]]:
    """Yield the values in lists of at most ``length``, one list for each statement."""
    left = iter(values)
    while some := list(islice(left, length)):
        yield some


def insert_missing(tx: Transaction, table: sa.Table, row: Mapping[str, Any]) -> bool:
    """Insert ``row`` unless a row with one of its unique keys exists. Returns whether the row was inserted.

    A row that was committed after the snapshot of this transaction counts as existing, too.
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
    """Run a statement with two columns; return its rows as first column → second column."""
    if isinstance(statement, Prepared):
        return dict(statement.rows(connection, **parameters))
    return {row[0]: row[1] for row in connection.execute(statement, parameters)}


_SQLITE: sa.Dialect = sqlite.dialect()
_POSTGRESQL: sa.Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
_MYSQL: sa.Dialect = mysql.dialect()

_GIVEN = "given"
#: Builds a statement from the columns of the parameter rows.
Build = Callable[[Mapping[str, sa.ColumnElement[Any]]], Any]


class ManyRows:
    """A statement that applies any number of parameter rows at once.

    Several rows are sent as one JSON text; a single row as plain parameters, which every server plans and runs faster.

    ``columns``: name → type of each column of the parameter rows. ``build``: builds an UPDATE or an INSERT … SELECT
    from these columns; it may also use bound parameters, whose values are the same for all rows.
    The parameter rows of an UPDATE must match different rows of the table.
    """

    def __init__(self, columns: Mapping[str, sa.types.TypeEngine[Any]], build: Build) -> None:
        parameters = {name: sa.bindparam(f"{_GIVEN}_{name}", type_=kind) for name, kind in columns.items()}
        self._one = Prepared(build(parameters))
        self._many = {backend: Prepared(build(dict(_given(backend, columns).c))) for backend in _TABLES_OF_JSON}

    def run(self, tx: Transaction, rows: Sequence[Mapping[str, Any]], **same: Any) -> int:
        """Run the statement with ``rows`` and the common parameters ``same``; return the number of matched rows."""
        if not rows:
            return 0
        statement, given = self._for(tx, rows)
        return statement.run(tx.connection, **given, **same)

    def send(self, tx: Transaction, rows: Sequence[Mapping[str, Any]], **same: Any) -> Sent:
        """Send the statement with at least one row; see :meth:`Prepared.send`."""
        statement, given = self._for(tx, rows)
        return statement.send(tx.connection, **given, **same)

    def rows(self, tx: Transaction, rows: Sequence[Mapping[str, Any]], **same: Any) -> list[tuple[Any, ...]]:
        """Run a statement with a RETURNING clause like :meth:`run`, and return its rows."""
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
    """Return the INSERT of many rows. ``columns``: column → its name in the parameter rows.

    ``same``: column → value that all new rows share. ``returning``: columns of the new rows that the INSERT returns.
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
    # A comparison with a column of another collation cannot use an index.
    collated = f" CHARSET utf8mb4 COLLATE {COLLATION}" if isinstance(kind, sa.String) else ""
    return f"{_MYSQL.identifier_preparer.quote(name)} {spelt}{collated} PATH '$.{name}' ERROR ON ERROR"


_JSON_TABLE = "SELECT * FROM JSON_TABLE(:given_rows, '$[*]' COLUMNS({})) AS listed"
_TABLES_OF_JSON: Mapping[str, tuple[str, Callable[[str, sa.types.TypeEngine[Any]], str]]] = {
    "sqlite": ("SELECT {} FROM json_each(:given_rows)", _sqlite_column),
    "postgresql": ("SELECT * FROM json_to_recordset(CAST(:given_rows AS json)) AS listed({})", _postgresql_column),
    "mysql": (_JSON_TABLE, _mariadb_column),
    "mariadb": (_JSON_TABLE, _mariadb_column),
}
