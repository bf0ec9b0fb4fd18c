# SPDX-License-Identifier: Apache-2.0
"""Open a database, and read what its errors mean: the one place that knows the drivers.

Readers see one state for as long as their transaction lasts (REPEATABLE READ on the servers, which fails nobody there
who only reads). The writer works in READ COMMITTED: it holds the change counter's row from its first statement on, so
that nobody else writes meanwhile; every statement must see what was committed before it got that row, and MariaDB
shall not lock gaps between rows on top.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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

_DRIVERS = {
    "sqlite": "sqlite",
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}
#: Steps of SQLite's machine, some milliseconds of them, after which a thread looks at its deadline.
_STEPS_BETWEEN_LOOKS = 200_000
#: A process that stops in the middle of a transaction keeps all others from writing for at most this long. One that
#: was only slow does the transaction again.
_IDLE_WRITER_S = 5
#: What the process reads for itself: a cloud of any size takes less.
_LONGEST_PATIENT_S = 600.0
#: How much later than the server itself a reader gives a statement up, which only a server that hangs makes it do.
_MARGIN_S = 5.0
#: How long a reader waits for a connection while all of them are in use.
_POOL_S = 10
#: How long SQLite waits for a file that somebody has locked; readers do, at most, while that is being recovered.
_READER_BUSY_S, _WRITER_BUSY_S = 5, 30

#: Errors name the statement and never its values: those are what tenants sent, and any number of them.
_ALL_ENGINES: Mapping[str, Any] = {
    "json_serializer": lambda value: orjson.dumps(value).decode(),
    "json_deserializer": orjson.loads,
    "hide_parameters": True,
    "execution_options": {"compiled_cache": compiled_statements.SHARED},
}
_DEADLOCKS = {"40001", "40P01", "55P03", 1205, 1213, 1020}
#: PostgreSQL: disk full. MariaDB: disk full, table full, and the errors that quote the system's own number.
_FULL = {"53100", 1021, 1114}
_QUOTING_ERRNO = {3, 1026, 1030}
_ERRNO_FULL = re2.compile(r"(?i)(errcode|errno|error): ?(28|122)\b|got error (28|122) ")
#: SQLite: full, and what it says where a quota or a limit of the file's size is in the way.
_FULL_SQLITE = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE}
#: A statement that took too long or was killed.
_CANCELLED = {"57014", 1317, 1969}
#: Shut down, starting up, too many connections; MariaDB: the same, and every way to say that the connection is gone.
_AWAY = {"57P01", "57P02", "57P03", "53300", "25P03", 1040, 1053, 1927, 2002, 2003, 2006, 2013, 2055, 4031}
#: What PostgreSQL says to somebody whom it will not take later either; its driver tells no code before it is connected.
_REFUSED = re2.compile(
    "authentication failed|no password supplied|no pg_hba.conf entry|not permitted to log in|permission denied"
    '|(database|role|user) ".*" does not exist'
)


@dataclass(frozen=True, slots=True)
class Engines:
    """Where readers get their connections, and where the writer does.

    ``readers`` end a statement that takes too long, or that nobody waits for any more; ``patient`` ones do not.
    """

    readers: Engine
    patient: Engine
    writer: Engine
    watch: Watch
    #: Of a server.
    pulse: SeqProbe | None = None

    def dispose(self) -> None:
        if self.pulse is not None:
            self.pulse.close()
        self.watch.close()
        self.readers.dispose()
        self.patient.dispose()
        self.writer.dispose()


def without_password(text: str) -> str:
    """Return what is no URL with everything hidden that may be meant as a password."""
    return str(re2.sub(r":[^:/][^/]*@", ":***@", text))


def checked_url(text: str) -> URL:
    """Read a database URL. Raises: ConfigurationError."""
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
    """Make the engines of a database; nothing connects yet. Raises: ConfigurationError.

    ``longest_read_s``: what one statement of a reader may take on a server. On SQLite the deadline of the
    thread counts. ``response_timeout_s``: for how long a server may say nothing at all before it counts as away.
    """
    try:
        if url.get_backend_name() == "sqlite":
            readers = _sqlite(url, "BEGIN", _READER_BUSY_S, pool_size=8, max_overflow=16)
            # What would take a statement back halfway is a file for each that changes many pages, unless it is kept in
            # memory. Readers keep their files: what they sort may be large.
            writer = _sqlite(url, "BEGIN IMMEDIATE", _WRITER_BUSY_S, "temp_store=MEMORY", pool_size=1, max_overflow=1)
            return Engines(readers, readers, writer, NoWatch())
        return _server(url, longest_read_s, response_timeout_s)
    except (ModuleNotFoundError, sa.exc.NoSuchModuleError) as error:
        raise ConfigurationError(f"[database] connection: the driver of {url.drivername!r} is missing.") from error


def private_file(name: str) -> None:
    """Make the file of an SQLite database, which SQLite would let everybody read; one that is there stays as it is.

    Its log and its shared memory get the same mode from SQLite.
    """
    if name.startswith("file:"):
        return
    with contextlib.suppress(FileExistsError, PermissionError):
        os.close(os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def settle(name: str) -> None:
    """Put all that was committed into the file of an SQLite database itself, so that it alone is a whole copy.

    Nobody else may be writing. Absent is success.
    """
    if name.startswith("file:") or not Path(name).exists():
        return
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(name, timeout=5)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def is_retryable(error: BaseException) -> bool:
    """Whether the same transaction may succeed later: deadlock, serialisation failure, lock time-out, server away."""
    return isinstance(error, DBAPIError) and (_code(error) in _DEADLOCKS or is_away(error) or is_locked(error))


def is_locked(error: DBAPIError) -> bool:
    """Whether somebody else has SQLite's file for longer than one waits."""
    return isinstance(error, OperationalError) and "database is locked" in str(error.orig)


def is_full(error: BaseException) -> bool:
    """Whether there is no room on the database's disk, by a quota or in fact."""
    if not isinstance(error, DBAPIError):
        return False
    code = _code(error)
    if code in _QUOTING_ERRNO:
        return _ERRNO_FULL.search(str(error.orig)) is not None
    return code in _FULL or getattr(error.orig, "sqlite_errorcode", None) in _FULL_SQLITE


def storage_full(url: URL, error: DBAPIError) -> StorageFull:
    """Say of what :func:`is_full` found which disk it is about."""
    kind = url.get_backend_name()
    where = str(url.database) if kind == "sqlite" else f"the {kind} server {url.host or ''}".rstrip()
    return StorageFull(where, str(error.orig).strip().splitlines()[0])


def ends_transaction(error: BaseException) -> bool:
    """Whether the transaction cannot go on without the statement that failed, whichever job it belongs to."""
    return is_retryable(error) or is_full(error)


def is_away(error: DBAPIError) -> bool:
    """Whether the server cannot be reached or the connection to it broke."""
    if error.connection_invalidated:
        return True
    code = _code(error)
    if isinstance(code, str):
        return code in _AWAY or code.startswith("08")
    # psycopg could not connect: there was nobody to give a code.
    unanswered = code is None and hasattr(error.orig, "sqlstate") and isinstance(error, OperationalError)
    return code in _AWAY or unanswered


def is_refused(error: DBAPIError) -> bool:
    """Whether a server answers and does not take this user or has no such database, which waiting does not change."""
    if not is_away(error):
        return True
    return hasattr(error.orig, "sqlstate") and _REFUSED.search(str(error.orig)) is not None


def is_cancelled(error: DBAPIError) -> bool:
    """Whether a statement was ended because it took too long or because nobody waits for it."""
    return _code(error) in _CANCELLED or (isinstance(error, OperationalError) and str(error.orig) == "interrupted")


def _code(error: DBAPIError) -> str | int | None:
    """Return the SQLSTATE of PostgreSQL, or MariaDB's number; None without either."""
    original = error.orig
    first = original.args[0] if original is not None and original.args else None
    if isinstance(first, int):  # MariaDB's driver knows a SQLSTATE as well, which says less
        return first
    state: str | None = getattr(original, "sqlstate", None)
    return state


def _server(url: URL, longest_read_s: float | None, response_timeout_s: float) -> Engines:
    dialect = sa.create_engine(url).dialect
    is_postgresql = url.get_backend_name() == "postgresql"
    watch = ServerWatch(connector(dialect, url, response_timeout_s), response_timeout_s)

    def engine(longest_wait_s: float | None, isolation_level: str, *, asks: bool = True, **options: Any) -> Engine:
        """``asks``: it is for requests, which do not connect while there is no answer to be had."""

        def create() -> Any:
            if asks:
                watch.require_answers()
            return connect()

        options |= {"creator": create, "pool_timeout": _POOL_S, "isolation_level": isolation_level}
        made = sa.create_engine(url, **options, **_ALL_ENGINES)
        connect = connector(made.dialect, url, longest_wait_s)
        event.listen(made, "connect", lambda connection, _record: watch.connected(connection))
        event.listen(made, "close", lambda connection, _record: watch.closed(connection))
        return made

    def limited(statement_s: float | None, **options: Any) -> Engine:
        """Return an engine for reading, which ends statements that take longer."""
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
    # No ping for the writer: whatever breaks is done again anyway. It may wait for other processes that write.
    writer = engine(None, "READ COMMITTED", asks=False, pool_size=1, max_overflow=1)

    @event.listens_for(writer, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        if is_postgresql:
            # The writer looks rows up by their keys. What was planned while a table was small must not read all of it
            # for every row once it is large, which is what a seq scan in a cached plan does until the next ANALYZE.
            orders = [
                f"SET idle_in_transaction_session_timeout = '{_IDLE_WRITER_S}s'",
                "SET enable_seqscan = off",
                "SET max_parallel_workers_per_gather = 0",  # workers take longer to start than rows to be looked up
                "SET jit = off",  # which a scan without an index would set off now, as it counts as very expensive
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


def _sqlite(url: URL, begin: str, busy_s: int, *pragmas: str, **pool: int) -> Engine:
    if url.database in {None, "", ":memory:"}:
        raise ConfigurationError(
            "[database] connection must name a file: an SQLite database in memory cannot be shared."
        )
    file = url.database
    engine = sa.create_engine(
        url,
        poolclass=sa.pool.QueuePool,
        connect_args={"check_same_thread": False, "timeout": busy_s},
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

    # The driver begins only with the first write. A listener for "begin" would do, too, but once an engine has any
    # listener every statement pays for looking through all kinds of them: a fifth of what a claim takes.
    engine.dialect.do_begin = _begin  # type: ignore[assignment, method-assign]
    return engine
