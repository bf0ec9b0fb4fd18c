# SPDX-License-Identifier: Apache-2.0
"""Statements of the writer's hot path: compiled once, then passed to the driver without SQLAlchemy.

For every call SQLAlchemy looks up the compiled statement, expands its list parameters and builds a context and a
result, which takes longer than the answer of SQLite. Here a statement is compiled once for each backend and for each
length of its list parameters. Lists are padded to a power of two by repeating their last value, so that few SQL texts
exist and servers reuse their plans.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.visitors import iterate

from kilonova.records import dataclass

_Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Argument:
    """One value for the driver: a parameter, item ``index`` of a list parameter, or a constant of the statement."""

    name: str
    parameter: str | None
    index: int | None
    constant: Any
    convert: _Convert | None


@dataclass(frozen=True, slots=True)
class _Ready:
    """A compiled statement in the form that a driver executes."""

    text: str
    arguments: tuple[_Argument, ...]
    is_positional: bool
    #: Names of the parameters in the driver's order, if there are no list parameters and no constants; else None.
    names: tuple[str, ...] | None
    #: Index in ``names`` and converter of each value that needs a conversion.
    converters: tuple[tuple[int, _Convert], ...]

    def values(self, parameters: Mapping[str, Any]) -> Sequence[Any] | Mapping[str, Any]:
        # Written inline for speed: the statements that store a new server have about a hundred arguments.
        if self.names is None:
            values = self._expanded(parameters)
        else:
            values = [parameters[name] for name in self.names]
            for index, convert in self.converters:
                values[index] = convert(values[index])
        if self.is_positional:
            return values
        return {argument.name: value for argument, value in zip(self.arguments, values, strict=True)}

    def _expanded(self, parameters: Mapping[str, Any]) -> list[Any]:
        """Return the values of a statement with list parameters or constants."""
        values = []
        for argument in self.arguments:
            if argument.parameter is None:
                values.append(argument.constant)
                continue
            value = parameters[argument.parameter]
            if argument.index is not None:
                value = value[min(argument.index, len(value) - 1)]
            values.append(value if argument.convert is None else argument.convert(value))
        return values


class Sent:
    """A statement that was sent to the database. Its answer can be read once.

    Inside of ``pipelined`` (``db/core/pipeline.py``) the answers are there only after the end of the block.
    """

    __slots__ = ("_columns_of", "_cursor")

    def __init__(self, cursor: Any, columns_of: Callable[[Any], Sequence[tuple[int, _Convert]]]) -> None:
        self._cursor = cursor
        self._columns_of = columns_of

    def count(self) -> int:
        """Return the number of matched rows."""
        count: int = self._cursor.rowcount
        self._cursor.close()
        return count

    def rows(self) -> list[tuple[Any, ...]]:
        """Return all rows."""
        found: list[tuple[Any, ...]] = self._cursor.fetchall()
        columns = self._columns_of(self._cursor.description)
        self._cursor.close()
        return [_converted(row, columns) for row in found] if columns else list(found)


class Prepared:
    """A statement to run with parameters on a connection with an open transaction.

    Expanding parameters (``IN``) take lists. Raises: the errors that SQLAlchemy raises for the statement.
    """

    def __init__(self, statement: Any) -> None:
        self._statement = statement
        self._ready: dict[Any, _Ready] = {}
        #: Names of the parameters whose values are lists.
        self._lists = tuple(
            each.key
            for each in dict.fromkeys(iterate(statement))
            if isinstance(each, sa.BindParameter) and each.expanding and each.required
        )
        #: Backend → the result columns that need a conversion, with their converters.
        self._columns: dict[str, tuple[tuple[int, _Convert], ...]] = {}

    def rows(self, connection: Connection, **parameters: Any) -> list[tuple[Any, ...]]:
        """Run the statement and return all rows."""
        return self.send(connection, **parameters).rows()

    def send(self, connection: Connection, **parameters: Any) -> Sent:
        """Send the statement. In a pipeline, this does not wait for the answer."""
        return Sent(self._run(connection, parameters), partial(self._columns_of, connection.dialect))

    def run(self, connection: Connection, **parameters: Any) -> int:
        """Run the statement and return the number of matched rows."""
        cursor = self._run(connection, parameters)
        count: int = cursor.rowcount
        cursor.close()
        return count

    def run_each(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run the statement once for each row of parameters; lists are not supported."""
        if len(rows) == 1:  # psycopg needs another round trip for ``executemany``
            self._run(connection, rows[0]).close()
            return
        ready = self._made_ready(connection, rows[0])
        try:
            cursor = _driver(connection).cursor()
            cursor.executemany(ready.text, [ready.values(row) for row in rows])
        except connection.dialect.loaded_dbapi.Error as error:
            raise raised(connection, ready.text, error) from error
        cursor.close()

    def _run(self, connection: Connection, parameters: Mapping[str, Any]) -> Any:
        ready = self._made_ready(connection, parameters)
        try:
            cursor = _driver(connection).cursor()
            cursor.execute(ready.text, ready.values(parameters))
        except connection.dialect.loaded_dbapi.Error as error:
            raise raised(connection, ready.text, error) from error
        return cursor

    def _made_ready(self, connection: Connection, parameters: Mapping[str, Any]) -> _Ready:
        backend = connection.dialect.name
        key = (backend, *[_filled(len(parameters[name])) for name in self._lists]) if self._lists else backend
        ready = self._ready.get(key)
        if ready is None:
            ready = self._ready[key] = self._prepare(connection.dialect, parameters)
        return ready

    def _prepare(self, dialect: sa.Dialect, parameters: Mapping[str, Any]) -> _Ready:
        filled = {
            name: value + value[-1:] * (_filled(len(value)) - len(value)) if isinstance(value, list) else value
            for name, value in parameters.items()
        }
        compiled = self._statement.compile(dialect=dialect)
        state = compiled.construct_expanded_state(filled)
        places = {
            name: (parameter, index)
            for parameter, names in state.parameter_expansion.items()
            for index, name in enumerate(names)
        }
        binds = {name: bind for bind, name in compiled.bind_names.items()}
        arguments = []
        for name in state.positiontup if compiled.positional else state.parameters:
            parameter, index = places.get(name, (name, None))
            convert = _to_driver(binds[parameter].type, dialect)
            if binds[parameter].required:
                arguments.append(_Argument(name, parameter, index, None, convert))
            else:
                constant = state.parameters[name]
                arguments.append(_Argument(name, None, None, constant if convert is None else convert(constant), None))
        names = tuple(each.parameter for each in arguments if each.parameter and each.index is None)
        is_simple = len(names) == len(arguments)
        converters = [(index, each.convert) for index, each in enumerate(arguments) if each.convert is not None]
        return _Ready(
            state.statement,
            tuple(arguments),
            compiled.positional,
            names if is_simple else None,
            tuple(converters) if is_simple else (),
        )

    def _columns_of(self, dialect: sa.Dialect, described: Sequence[Any]) -> tuple[tuple[int, _Convert], ...]:
        columns = self._columns.get(dialect.name)
        if columns is None:
            columns = self._columns[dialect.name] = self._conversions(dialect, described)
        return columns

    def _conversions(self, dialect: sa.Dialect, described: Sequence[Any]) -> tuple[tuple[int, _Convert], ...]:
        wanted = getattr(self._statement, "selected_columns", ())
        found = [_from_driver(column.type, dialect, about[1]) for column, about in zip(wanted, described, strict=False)]
        return tuple((index, convert) for index, convert in enumerate(found) if convert is not None)


class PreparedInsert:
    """The INSERT of rows into a table.

    All rows of a call have the same columns. Client-side defaults are not applied: a row needs a value for each column
    that has such a default.
    """

    def __init__(self, table: sa.Table) -> None:
        self._table = table
        self._by_columns: dict[tuple[str, ...], Prepared] = {}

    def run(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows; an empty sequence is allowed."""
        if rows:
            columns = tuple(rows[0])
            prepared = self._by_columns.get(columns)
            if prepared is None:
                prepared = self._by_columns[columns] = self._prepare(columns)
            prepared.run_each(connection, rows)

    def _prepare(self, columns: Sequence[str]) -> Prepared:
        missing = {column.name for column in self._table.c if column.default is not None} - {*columns}
        assert not missing, f"{self._table.name}: rows without {sorted(missing)}"
        kinds = {name: self._table.c[name].type for name in columns}
        return Prepared(
            sa.insert(self._table).values({name: sa.bindparam(name, type_=kind) for name, kind in kinds.items()})
        )


class PreparedUpdate:
    """The UPDATE of the rows of a table that meet all conditions. Client-side defaults (``onupdate``) are not applied.

    Parameters of the conditions must not have names of columns.
    """

    def __init__(self, table: sa.Table, *conditions: Any) -> None:
        self._table = table
        self._conditions = conditions
        self._by_columns: dict[tuple[str, ...], Prepared] = {}

    def run(self, connection: Connection, values: Mapping[str, Any], **parameters: Any) -> int:
        """Set columns, and return the number of matched rows. ``parameters``: of the conditions."""
        columns = tuple(values)
        prepared = self._by_columns.get(columns)
        if prepared is None:
            prepared = self._by_columns[columns] = self._prepare(columns)
        return prepared.run(connection, **parameters, **{f"new_{name}": value for name, value in values.items()})

    def _prepare(self, columns: Sequence[str]) -> Prepared:
        new = {name: sa.bindparam(f"new_{name}", type_=self._table.c[name].type) for name in columns}
        return Prepared(sa.update(self._table).where(*self._conditions).values(new))


# SQLite stores times as texts. All statements of a transaction have the same time, and many rows were written together.
_SQLITE: sa.Dialect = sqlite.dialect()
_TIME: Any = sa.DateTime().dialect_impl(_SQLITE)
_text_of_time: _Convert = lru_cache(64)(_TIME.bind_processor(_SQLITE))
_time_of_text: _Convert = lru_cache(1024)(_TIME.result_processor(_SQLITE, None))


def _to_driver(kind: Any, dialect: sa.Dialect) -> _Convert | None:
    """Return the converter of parameters of a type, or None if the driver takes them as they are."""
    if dialect.name == "sqlite" and isinstance(kind, sa.DateTime):
        return _text_of_time
    convert: _Convert | None = kind.dialect_impl(dialect).bind_processor(dialect)
    return convert


def _from_driver(kind: Any, dialect: sa.Dialect, described: Any) -> _Convert | None:
    """Return the converter of a column's values, or None if they need none. ``described``: the driver's type."""
    if dialect.name == "sqlite" and isinstance(kind, sa.DateTime):
        return _time_of_text
    convert: _Convert | None = kind.dialect_impl(dialect).result_processor(dialect, described)
    return convert


def _converted(row: tuple[Any, ...], columns: Sequence[tuple[int, _Convert]]) -> tuple[Any, ...]:
    """Return the row with the values of these columns converted; NULL stays None."""
    values: list[Any] | None = None
    for index, convert in columns:
        if (value := row[index]) is not None:
            if values is None:
                values = list(row)
            values[index] = convert(value)
    return row if values is None else tuple(values)


def _filled(count: int) -> int:
    """Round up to a power of two; 0 stays 0."""
    return 1 << (count - 1).bit_length() if count else 0


def _driver(connection: Connection) -> Any:
    return connection.connection.dbapi_connection


def raised(connection: Connection, text: str, error: Any) -> BaseException:
    """Return SQLAlchemy's exception for a driver's ``error``; invalidate the connection if it broke."""
    dialect = connection.dialect
    gone = dialect.is_disconnect(error, _driver(connection), None)
    converted: BaseException = DBAPIError.instance(
        text,
        None,
        error,
        dialect.loaded_dbapi.Error,
        hide_parameters=True,
        connection_invalidated=gone,
        dialect=dialect,
    )
    if gone:
        connection.invalidate(error)
    return converted
