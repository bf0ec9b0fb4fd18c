# SPDX-License-Identifier: Apache-2.0
"""A PyMySQL connection that sends several statements in one round trip. No other module imports PyMySQL.

The server runs the statements of one message in order, and none after the first that fails.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pymysql.connections import Connection
from pymysql.constants.CLIENT import MULTI_STATEMENTS
from pymysql.constants.SERVER_STATUS import SERVER_STATUS_IN_TRANS
from pymysql.cursors import Cursor

#: Waiting statements are sent when they have this length, far below the server's limit of a message.
_SENT_AT_BYTES = 2**20


class _Waiting:
    """A cursor of one statement in a pipeline. The answer is there after the end of the pipeline."""

    def __init__(self, pipeline: "_Pipeline") -> None:
        self._pipeline = pipeline
        self.rowcount = -1
        self.description: Any = ()
        self._rows: Sequence[tuple[Any, ...]] = ()

    def execute(self, text: str, values: Any = None) -> None:
        self._pipeline.add(self, text, values)

    def executemany(self, text: str, rows: Sequence[Any]) -> None:
        for values in rows:
            self._pipeline.add(self, text, values)

    def answered(self, result: Any) -> None:
        self.rowcount, self.description, self._rows = result.affected_rows, result.description, result.rows or ()

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self._rows)

    def close(self) -> None:
        """Do nothing: the answer is read by the pipeline."""


class _Pipeline:
    """Statements that wait to be sent together."""

    def __init__(self, connection: "PipeliningConnection") -> None:
        self._connection = connection
        self._cursor = Cursor(connection)
        self._texts: list[str] = []
        self._waiting: list[_Waiting] = []
        self._length = 0

    def add(self, cursor: _Waiting, text: str, values: Any) -> None:
        complete = self._cursor.mogrify(text, values)
        if self._texts and self._length + len(complete) > _SENT_AT_BYTES:
            self.send()
        self._texts.append(complete)
        self._waiting.append(cursor)
        self._length += len(complete)

    def send(self) -> None:
        """Send the waiting statements, and read their answers. Raises: the error of the first that fails."""
        texts, waiting = self._texts, self._waiting
        self._texts, self._waiting, self._length = [], [], 0
        if not texts:
            return
        connection = self._connection
        connection.query(";".join(texts))
        waiting[0].answered(connection._result)  # noqa: SLF001 - its cursor reads it, too
        for cursor in waiting[1:]:
            connection.next_result()
            cursor.answered(connection._result)  # noqa: SLF001

    def sync(self) -> None:
        """Do nothing: no answer is open, and statements that were not sent yet are dropped."""


class PipeliningConnection(Connection):  # type: ignore[misc]
    """A connection with the interface of psycopg's pipeline mode (``db/core/pipeline.py``)."""

    can_pipeline = True

    def __init__(self, *arguments: Any, client_flag: int = 0, **options: Any) -> None:
        self._pipeline: _Pipeline | None = None
        super().__init__(*arguments, client_flag=client_flag | MULTI_STATEMENTS, **options)

    @contextmanager
    def pipeline(self) -> Iterator[_Pipeline]:
        """Collect the statements of the ``with`` block, and send them at its end. After an exception, drop them."""
        pipeline = self._pipeline = _Pipeline(self)
        try:
            yield pipeline
        finally:
            self._pipeline = None
        pipeline.send()

    def cursor(self, cursor: Any = None) -> Any:
        return _Waiting(self._pipeline) if self._pipeline is not None else super().cursor(cursor)

    def execute(self, text: str) -> None:
        """Run a statement without parameters, in the pipeline if there is one."""
        self.cursor().execute(text)

    def commit(self) -> None:
        """Commit, unless a statement of a pipeline has done so."""
        if self.server_status & SERVER_STATUS_IN_TRANS:
            super().commit()
