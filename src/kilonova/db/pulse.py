# SPDX-License-Identifier: Apache-2.0
"""The newest seq of a server database, asked for before every decision: one round trip on a connection of its own."""

import contextlib
import threading
from typing import Any

from sqlalchemy.engine import Engine

from kilonova.errors import Unavailable

#: ExecStatusType of libpq.
PGRES_COMMAND_OK, PGRES_TUPLES_OK = 1, 2
_NAME = b"newest"
_NEWEST = "SELECT seq FROM change_counter WHERE id = 1"


class Pulse:
    """Reads the change counter outside any transaction, so that each answer is new. Safe to use from any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._is_postgresql = engine.dialect.name == "postgresql"
        self._lock = threading.Lock()
        self._connection: Any = None

    def newest_seq(self) -> int:
        """Return the seq of the last commit of any process. Raises: Unavailable."""
        with self._lock:
            try:
                return self._ask()
            except self._errors:
                self._forget()  # the server may have been restarted since the last time
            try:
                return self._ask()
            except self._errors as error:
                self._forget()
                raise Unavailable("The database cannot be reached.") from error

    def close(self) -> None:
        with self._lock:
            self._forget()

    @property
    def _errors(self) -> Any:
        return self._engine.dialect.loaded_dbapi.Error

    def _ask(self) -> int:
        if self._connection is None:
            arguments, settings = self._engine.dialect.create_connect_args(self._engine.url)
            self._connection = self._engine.dialect.connect(*arguments, **settings, autocommit=True)
            if self._is_postgresql:
                self._through_libpq(self._connection.pgconn.prepare(_NAME, _NEWEST.encode()))
        if self._is_postgresql:
            return int(self._through_libpq(self._connection.pgconn.exec_prepared(_NAME, [])).get_value(0, 0))
        with self._connection.cursor() as cursor:
            cursor.execute(_NEWEST)
            seq: int = cursor.fetchone()[0]
            return seq

    def _through_libpq(self, result: Any) -> Any:
        """Return a result of PostgreSQL's own library, where a cursor would take longer than the server does."""
        if result.status not in {PGRES_COMMAND_OK, PGRES_TUPLES_OK}:
            raise self._engine.dialect.loaded_dbapi.OperationalError(result.error_message.decode(errors="replace"))
        return result

    def _forget(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(self._errors):  # it may be broken already
                connection.close()
