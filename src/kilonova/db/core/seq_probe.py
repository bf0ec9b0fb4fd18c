# SPDX-License-Identifier: Apache-2.0
"""Query for the newest seq of the change log, made before every decision: one round trip on a separate connection.

A thread that calls while a query is running waits for the next query, whose answer is shared by all threads that called
in the meantime. So each answer is at least as new as the call, and no thread waits for more than two queries.
"""

import contextlib
import threading
from typing import Any

import sqlalchemy as sa

from kilonova.db.core.server_watch import AWAY, ServerWatch
from kilonova.db.core.socket_timeouts import Connect
from kilonova.errors import Unavailable

#: ExecStatusType of libpq.
PGRES_COMMAND_OK, PGRES_TUPLES_OK = 1, 2
_NAME = b"newest"
_NEWEST = "SELECT seq FROM change_counter WHERE id = 1"


class SeqProbe:
    """Reader of the change counter, outside any transaction, so that no answer is stale. Thread-safe."""

    def __init__(self, watch: ServerWatch, dialect: sa.Dialect, connect: Connect) -> None:
        self._watch = watch
        self._dialect = dialect
        self._connect = connect
        self._is_postgresql = dialect.name == "postgresql"
        self._connection: Any = None
        self._turn = threading.Condition()
        self._is_asking = False
        #: Number of queries started, number of queries answered, and the last answer: None if the server gave none.
        self._begun = 0
        self._answered = 0
        self._answer: int | None = None

    def newest_seq(self) -> int:
        """Return the seq of the last commit of any process. Raises: Unavailable."""
        with self._turn:
            mine = self._begun + 1
            while self._is_asking and self._answered < mine:
                self._turn.wait()
            if self._answered >= mine:
                return self._known()
            self._is_asking = True
            self._begun += 1
        answer = None
        try:
            answer = self._ask_twice()
        finally:
            with self._turn:
                self._answer = answer
                self._answered = self._begun
                self._is_asking = False
                self._turn.notify_all()
        return self._of(answer)

    def close(self) -> None:
        self._forget()

    def _known(self) -> int:
        return self._of(self._answer)

    def _of(self, answer: int | None) -> int:
        if answer is None:
            raise Unavailable(AWAY)
        return answer

    def _ask_twice(self) -> int | None:
        for _ in range(2):  # retry once: the server may have been restarted since the last query
            self._watch.require_answers()
            try:
                return self._ask()
            except self._dialect.loaded_dbapi.Error:
                self._forget()
        return None

    def _ask(self) -> int:
        if self._connection is None:
            self._connection = self._connect()
            self._watch.connected(self._connection)
            if self._is_postgresql:
                self._through_libpq(self._connection.pgconn.prepare(_NAME, _NEWEST.encode()))
        seq = self._read()
        self._watch.heard()
        return seq

    def _read(self) -> int:
        if self._is_postgresql:
            return int(self._through_libpq(self._connection.pgconn.exec_prepared(_NAME, [])).get_value(0, 0))
        with self._connection.cursor() as cursor:
            cursor.execute(_NEWEST)
            return int(cursor.fetchone()[0])

    def _through_libpq(self, result: Any) -> Any:
        """Return a result of libpq, or raise its error. A psycopg cursor costs more time than the query itself."""
        if result.status not in {PGRES_COMMAND_OK, PGRES_TUPLES_OK}:
            raise self._dialect.loaded_dbapi.OperationalError(result.error_message.decode(errors="replace"))
        return result

    def _forget(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._watch.closed(connection)
            with contextlib.suppress(self._dialect.loaded_dbapi.Error):  # the connection may be broken already
                connection.close()
