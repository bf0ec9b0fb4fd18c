# SPDX-License-Identifier: Apache-2.0
"""SQLAlchemy engines for each supported database, and the classification of their drivers' errors.

A reader sees one snapshot during its whole transaction: on servers by REPEATABLE READ, which never fails a read-only
transaction. The writer uses READ COMMITTED: its first statement locks the change counter's row, and the next statements
must see all commits made before it got that lock. No other process writes under that lock, so the gap locks that
MariaDB takes at REPEATABLE READ would only cost time.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
import re2  # type: ignore[import-untyped]
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import DBAPIError, OperationalError

from kilonova import deadline
from kilonova.db.core import compiled_statements
from kilonova.db.core.seq_probe import SeqProbe
from kilonova.db.core.server_watch import NoWatch, ServerWatch, Watch
from kilonova.db.core.socket_timeouts import connector
from kilonova.errors import ConfigurationError, StorageFull
from kilonova.records import dataclass

_DRIVERS = {
    "sqlite": "sqlite",
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}
#: Interval between checks of the thread's deadline, in instructions of SQLite's virtual machine: some milliseconds.
_STEPS_BETWEEN_LOOKS = 200_000
#: Seconds after which the server aborts an idle write transaction, so that a process which hangs in a transaction does
#: not block all other writers for longer than that. A process that was only slow repeats its transaction.
_IDLE_WRITER_S = 5
#: Statement timeout, in seconds, of reads that no API request waits for; loading the largest cloud takes less.
_LONGEST_PATIENT_S = 600.0
#: Seconds by which a reader's socket timeout exceeds the statement timeout of the server. So the socket timeout expires
#: only if the server hangs.
_MARGIN_S = 5.0
#: Seconds that a reader waits for a free connection if its pool is exhausted.
_POOL_S = 10
#: Busy timeouts of SQLite, in seconds. A reader has to wait only while SQLite recovers the file after a crash.
_READER_BUSY_S, _WRITER_BUSY_S = 5, 30
#: Number of prepared statements that the writer's connection keeps; the drivers' defaults, 128 of SQLite and 100 of
#: psycopg, are fewer than the statements of a process that builds, moves and deletes servers.
_WRITERS_STATEMENTS = 1_000

#: Options of every engine. Errors quote a statement without its values, which are long and are data of projects.
_ALL_ENGINES: Mapping[str, Any] = {
    "json_serializer": lambda value: orjson.dumps(value).decode(),
    "json_deserializer": orjson.loads,
    "hide_parameters": True,
    "execution_options": {"compiled_cache": compiled_statements.SHARED},
}
_DEADLOCKS = {"40001", "40P01", "55P03", 1205, 1213, 1020}
#: Error codes of a full disk: 53100 of PostgreSQL; 1021 (disk full) and 1114 (table full) of MariaDB.
_FULL = {"53100", 1021, 1114}
#: MariaDB's codes of failed file operations. Only the errno in the message tells whether the disk or a quota is full.
_QUOTING_ERRNO = {3, 1026, 1030}
_ERRNO_FULL = re2.compile(r"(?i)(errcode|errno|error): ?(28|122)\b|got error (28|122) ")
#: SQLite's codes of a full disk, an exceeded quota and an exceeded file size limit.
_FULL_SQLITE = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE}
#: Error codes of a statement that timed out or was cancelled.
_CANCELLED = {"57014", 1317, 1969}
#: Error codes of a server that is stopping, starting or out of connections; for MariaDB also of lost connections.
_AWAY = {"57P01", "57P02", "57P03", "53300", "25P03", 1040, 1053, 1927, 2002, 2003, 2006, 2013, 2055, 4031}
#: PostgreSQL's messages for a failed login that would fail again. Before the login, the driver gives no error code.
_REFUSED = re2.compile(
    "authentication failed|no password supplied|no pg_hba.conf entry|not permitted to log in|permission denied"
    '|(database|role|user) ".*" does not exist'
)


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines of one database.

    ``readers``: for API requests; a statement is cancelled after a timeout or when its client has gone. ``patient``:
    for long reads that no API request waits for. ``writer``: for the one :class:`~.writer.Writer` of the process.
    ``watch``: monitors whether the server answers.
    """

    readers: Engine
    patient: Engine
    writer: Engine
    watch: Watch
    #: Reader of the newest seq of the change log; None on SQLite.
    pulse: SeqProbe | None = None

    def dispose(self) -> None:
        if self.pulse is not None:
            self.pulse.close()
        self.watch.close()
        self.readers.dispose()
        self.patient.dispose()
        self.writer.dispose()


def without_password(text: str) -> str:
    """Mask every part of an invalid URL that may be a password."""
    return str(re2.sub(r":[^:/][^/]*@", ":***@", text))


def checked_url(text: str) -> URL:
    """Parse a database URL and add the driver's name. Raises: ConfigurationError."""
    try:
        url = make_url(text)
    except (sa.exc.ArgumentError, ValueError) as error:
        raise ConfigurationError(f"[database] connection is not a database URL: {without_password(text)!r}") from error
    backend = url.get_backend_name()
    if backend not in _DRIVERS:
        raise ConfigurationError(f"[database] connection names an unsupported database: {backend!r}")
    if "+" not in url.drivername:
        url = url.set(drivername=_DRIVERS[backend])
    return url


def open_engines(url: URL, longest_read_s: float | None, response_timeout_s: float) -> Engines:
    """Create the engines of a database without connecting. Raises: ConfigurationError.

    ``longest_read_s``: statement timeout of ``readers`` on a server; on SQLite the deadline of the thread limits a
    read. ``response_timeout_s``: seconds without an answer after which a server is declared unreachable.
    """
    try:
        if url.get_backend_name() == "sqlite":
            readers = _sqlite(url, "BEGIN", _READER_BUSY_S, pool_size=8, max_overflow=16)
            # SQLite writes a statement journal for each statement that changes many pages, which is faster in memory
            # than in a file. Readers keep their temporary data in files, because their sorts may be large.
            once = {"pool_size": 1, "max_overflow": 1, "statements": _WRITERS_STATEMENTS}
            writer = _sqlite(url, "BEGIN IMMEDIATE", _WRITER_BUSY_S, "temp_store=MEMORY", **once)
            return Engines(readers, readers, writer, NoWatch())
        return _server(url, longest_read_s, response_timeout_s)
    except (ModuleNotFoundError, sa.exc.NoSuchModuleError) as error:
        raise ConfigurationError(f"[database] connection: the driver of {url.drivername!r} is missing.") from error


def private_file(name: str) -> None:
    """Create the file of an SQLite database with mode 0600, if absent; SQLite would make it world-readable.

    SQLite gives the same mode to its write-ahead log and its shared-memory file.
    """
    if name.startswith("file:"):
        return
    with contextlib.suppress(FileExistsError, PermissionError):
        os.close(os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def is_retryable(error: BaseException) -> bool:
    """Return whether a retry may succeed: after a deadlock, serialisation failure, lock timeout or lost connection."""
    return isinstance(error, DBAPIError) and (_code(error) in _DEADLOCKS or is_away(error) or is_locked(error))


def is_locked(error: DBAPIError) -> bool:
    """Return whether another process held SQLite's file lock for longer than the busy timeout."""
    return isinstance(error, OperationalError) and "database is locked" in str(error.orig)


def is_full(error: BaseException) -> bool:
    """Return whether ``error`` says that the database's disk is full or its quota exhausted."""
    if not isinstance(error, DBAPIError):
        return False
    code = _code(error)
    if code in _QUOTING_ERRNO:
        return _ERRNO_FULL.search(str(error.orig)) is not None
    return code in _FULL or getattr(error.orig, "sqlite_errorcode", None) in _FULL_SQLITE


def storage_full(url: URL, error: DBAPIError) -> StorageFull:
    """Return the StorageFull for an ``error`` of a full disk; the exception names the SQLite file or the server."""
    kind = url.get_backend_name()
    where = str(url.database) if kind == "sqlite" else f"the {kind} server {url.host or ''}".rstrip()
    return StorageFull(where, str(error.orig).strip().splitlines()[0])


def ends_transaction(error: BaseException) -> bool:
    """Return whether the error aborts the whole transaction, and not only the job whose statement failed."""
    return is_retryable(error) or is_full(error)


def is_away(error: DBAPIError) -> bool:
    """Return whether ``error`` says that the server is unreachable or that the connection to it broke."""
    if error.connection_invalidated:
        return True
    code = _code(error)
    if isinstance(code, str):
        return code in _AWAY or code.startswith("08")
    # An error of psycopg without an SQLSTATE comes from a connection attempt that no server has answered.
    unanswered = code is None and hasattr(error.orig, "sqlstate") and isinstance(error, OperationalError)
    return code in _AWAY or unanswered


def is_refused(error: DBAPIError) -> bool:
    """Return whether a connection failed for good: the server rejects the user or has no such database."""
    if not is_away(error):
        return True
    return hasattr(error.orig, "sqlstate") and _REFUSED.search(str(error.orig)) is not None


def is_cancelled(error: DBAPIError) -> bool:
    """Return whether a statement was ended by a timeout or by a cancellation."""
    return _code(error) in _CANCELLED or (isinstance(error, OperationalError) and str(error.orig) == "interrupted")


def _code(error: DBAPIError) -> str | int | None:
    """Return the SQLSTATE of PostgreSQL or the error number of MariaDB; None if the error has neither."""
    original = error.orig
    first = original.args[0] if original is not None and original.args else None
    if isinstance(first, int):  # the SQLSTATE that MariaDB's driver also gives is less precise
        return first
    state: str | None = getattr(original, "sqlstate", None)
    return state


def _server(url: URL, longest_read_s: float | None, response_timeout_s: float) -> Engines:
    dialect = sa.create_engine(url).dialect
    is_postgresql = url.get_backend_name() == "postgresql"
    watch = ServerWatch(connector(dialect, url, response_timeout_s), response_timeout_s)

    def engine(
        longest_wait_s: float | None, isolation_level: str, *, is_writer: bool = False, **options: Any
    ) -> Engine:
        """Create an engine. Attempts to connect fail at once while the server is hung, except those of the writer."""

        def create() -> Any:
            if not is_writer:
                watch.require_answers()
            return connect()

        options |= {"creator": create, "pool_timeout": _POOL_S, "isolation_level": isolation_level}
        made = sa.create_engine(url, **options, **_ALL_ENGINES)
        connect = connector(made.dialect, url, longest_wait_s, pipelines=is_writer)
        event.listen(made, "connect", lambda connection, _record: watch.connected(connection))
        event.listen(made, "close", lambda connection, _record: watch.closed(connection))
        return made

    def limited(statement_s: float | None, **options: Any) -> Engine:
        """Create an engine for reads with a statement timeout of ``statement_s``; None for no timeout."""
        wait_s = None if statement_s is None else statement_s + _MARGIN_S
        made = engine(wait_s, "REPEATABLE READ", pool_pre_ping=True, **options)
        if statement_s is not None:
            milliseconds = max(1, int(statement_s * 1000))
            order = f"SET SESSION max_statement_time = {statement_s}"
            if is_postgresql:
                order = f"SET statement_timeout = {milliseconds}"
            elif not _is_mariadb(made):
                order = f"SET SESSION max_execution_time = {milliseconds}"
            event.listen(made, "connect", lambda connection, _record: _tell(connection, [order]))
        return made

    readers = limited(longest_read_s, pool_size=8, max_overflow=16)
    patient = limited(_LONGEST_PATIENT_S, pool_size=1, max_overflow=15)
    # The writer needs no ping, because it repeats a transaction whose connection broke. It has no statement timeout,
    # because its first statement may have to wait for the writers of other processes.
    writer = engine(None, "READ COMMITTED", is_writer=True, pool_size=1, max_overflow=1)

    @event.listens_for(writer, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        if is_postgresql:
            connection.prepared_max = _WRITERS_STATEMENTS
            # The writer finds rows by their keys. With sequential scans enabled, a plan that was cached while a table
            # was small would keep its sequential scan when the table is large, until the next ANALYZE.
            orders = [
                f"SET idle_in_transaction_session_timeout = '{_IDLE_WRITER_S}s'",
                "SET enable_seqscan = off",
                "SET max_parallel_workers_per_gather = 0",  # Starting workers takes longer than an index lookup.
                "SET jit = off",  # Disabled sequential scans have a huge cost estimate, which would trigger the JIT.
            ]
        elif _is_mariadb(writer):
            orders = [f"SET SESSION idle_write_transaction_timeout = {_IDLE_WRITER_S}", "SET time_zone = '+00:00'"]
        else:
            orders = []
        _tell(connection, orders)

    pulse = SeqProbe(watch, dialect, connector(dialect, url, _MARGIN_S, autocommit=True))
    return Engines(readers, patient, writer, watch, pulse)


def _is_mariadb(engine: Engine) -> bool:
    return bool(engine.dialect.is_mariadb)  # type: ignore[attr-defined]


def _tell(connection: Any, orders: Iterable[str]) -> None:
    with connection.cursor() as cursor:
        for order in orders:
            cursor.execute(order)
    connection.commit()


def _sqlite(url: URL, begin: str, busy_s: int, *pragmas: str, statements: int = 128, **pool: int) -> Engine:
    if url.database in {None, "", ":memory:"}:
        raise ConfigurationError(
            "[database] connection must name a file: an SQLite database in memory cannot be shared."
        )
    file = url.database
    engine = sa.create_engine(
        url,
        poolclass=sa.pool.QueuePool,
        connect_args={"check_same_thread": False, "timeout": busy_s, "cached_statements": statements},
        **_ALL_ENGINES,
        **pool,
    )

    @event.listens_for(engine, "do_connect")
    def _make(*_: Any) -> None:
        if Path(file).parent.is_dir():
            private_file(file)

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        connection.set_progress_handler(deadline.is_over, _STEPS_BETWEEN_LOOKS)
        cursor = connection.cursor()
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            f"busy_timeout={busy_s * 1000}",
            "cache_size=-65536",
            *pragmas,
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    def _begin(connection: Any) -> None:
        connection.cursor().execute(begin)

    # By default the driver begins a transaction only at its first write. A "begin" event listener is not used, because
    # it would make SQLAlchemy check for listeners of all kinds at every statement: a fifth of the time of a claim.
    engine.dialect.do_begin = _begin  # type: ignore[assignment, method-assign]
    return engine
