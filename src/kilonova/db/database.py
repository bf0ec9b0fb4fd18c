# SPDX-License-Identifier: Apache-2.0
"""The database of one control process: snapshots for readers, and one writer (``core/writer.py``).

A job may run more than once: the writer repeats a batch after a lost connection, a lock conflict or the failure of
another job of the batch. So a job must have no effect outside the database. Its result is returned only when the commit
is durable and all listeners have handled its changes. While the database server is unreachable, the writer waits. If
the answer to a COMMIT is lost, the change log shows whether the transaction was committed.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import datetime
from typing import TypeVar

from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from kilonova import deadline
from kilonova.clock import utc_now
from kilonova.db.change_log.changes import Commit
from kilonova.db.core import change_log
from kilonova.db.core.abandoned_reads import AbandonedReads
from kilonova.db.core.clock import DatabaseClock
from kilonova.db.core.engines import (
    checked_url,
    is_away,
    is_cancelled,
    is_full,
    is_locked,
    open_engines,
    storage_full,
)
from kilonova.db.core.server_watch import AWAY
from kilonova.db.core.sqlite_checkpoint import checkpoint_file
from kilonova.db.core.transaction import BatchedWrite, Transaction, run_singly
from kilonova.db.core.writer import Writer
from kilonova.errors import DeadlineExceeded, Unavailable
from kilonova.periodic import PeriodicThread

LOG = logging.getLogger(__name__)

T = TypeVar("T")
Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class Database:
    """A database with its connection pool for readers and its writer thread.

    ``own_clock``: clock for SQLite, which has none. ``clock``: the clock on which all processes of the database agree.
    Raises: ConfigurationError for an invalid URL or an unsupported backend.
    """

    def __init__(
        self,
        url: str,
        *,
        own_clock: Callable[[], datetime] = utc_now,
        longest_read_s: float | None = None,
        response_timeout_s: float = 3.0,
    ) -> None:
        self.url = checked_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        #: Whether this is the only control process of the database; a lock on the file ensures this for SQLite.
        self.is_sole_process = self.is_sqlite
        self._engines = open_engines(self.url, longest_read_s, response_timeout_s)
        self._watch = self._engines.watch
        self._unwanted = None if self.is_sqlite else AbandonedReads(self._engines.patient)
        self._listeners: list[Callable[[Commit], None]] = []
        self.clock = DatabaseClock(own_clock if self.is_sqlite else None, self._ask_time)
        self._writer = Writer(
            self._engines.writer, self._watch, self.clock, self._announce, timeout_s=response_timeout_s
        )

    def on_commit(self, listener: Callable[[Commit], None]) -> None:
        """Register a listener for every commit of this process. It runs before the callers of the writes continue.

        Commits arrive in order. The listener runs on the thread that writes, which may be the thread of a caller, so it
        must not write itself. Its exceptions are logged and ignored.
        """
        self._listeners.append(listener)

    @property
    def waiting_writes(self) -> int:
        """The number of jobs queued for the writer."""
        return self._writer.waiting

    @property
    def periodic_threads(self) -> Sequence[PeriodicThread]:
        """The periodic tasks that check the health of the server and cancel abandoned reads."""
        return (*self._watch.periodic_threads, *(() if self._unwanted is None else self._unwanted.periodic_threads))

    @property
    def unheard_writes(self) -> int:
        """The number of writes that were, or may have been, committed after their callers got an error."""
        return self._writer.unheard

    @property
    def engine(self) -> Engine:
        """The connection pool of readers."""
        return self._engines.readers

    @contextmanager
    def read(self, *, patient: bool = False) -> Iterator[Connection]:
        """Return a context manager for a connection inside one read transaction, which sees one snapshot.

        A statement is cancelled at the deadline of this thread, or never if ``patient``.
        Raises: Unavailable, DeadlineExceeded, ClientGone.
        """
        if patient:
            with deadline.running(deadline.NEVER), self._begin_read(self._engines.patient) as connection:
                yield connection
        else:
            deadline.check()
            with self._begin_read(self.engine) as connection:
                yield connection

    @contextmanager
    def _begin_read(self, engine: Engine) -> Iterator[Connection]:
        self._watch.require_answers()
        try:
            with engine.begin() as connection:
                if self._unwanted is None:
                    yield connection
                else:
                    with self._unwanted.watched(connection):
                        yield connection
            self._watch.heard()
        except PoolTimeout as error:
            raise Unavailable("Every connection to the database is in use.") from error
        except DBAPIError as error:
            if is_cancelled(error):
                deadline.check()
                raise DeadlineExceeded("The request took longer than the service allows.") from error
            if is_away(error) or is_locked(error):
                raise Unavailable(AWAY) from error
            if is_full(error):
                raise storage_full(self.url, error) from error
            raise

    def newest_seq(self) -> int:
        """Return the seq of the last commit of any process; not for SQLite. Raises: Unavailable."""
        assert self._engines.pulse is not None
        return self._engines.pulse.newest_seq()

    def _ask_time(self) -> datetime:
        with self.read() as connection:
            return change_log.time_of(connection)

    def write(self, job: Callable[[Transaction], T]) -> T:
        """Run ``job`` in a transaction, and return its result when the commit is durable."""
        result: T = self.write_batched(run_singly, job)
        return result

    def write_unless_away(self, job: Callable[[Transaction], T]) -> T:
        """Run ``job`` like :meth:`write`, but do not wait for an unreachable database server: refuse the job then.

        Raises: Unavailable.
        """
        with deadline.running(deadline.NEVER):
            return self.write(job)

    def submit(self, job: Callable[[Transaction], T]) -> "Future[T]":
        """Queue ``job`` for the writer; the future resolves after the commit."""
        return self.submit_batched(run_singly, job)

    def submit_batched(self, run: BatchedWrite[Item, Outcome], item: Item) -> "Future[Outcome]":
        """Queue ``item`` for the writer; one call of ``run`` gets all queued items with the same ``run``, in order.

        ``run`` returns one outcome per item. An exception as the outcome of an item fails only that item; ``run`` must
        have rolled back the item's changes.
        """
        return self._writer.submit(run, item)

    def write_batched(self, run: BatchedWrite[Item, Outcome], item: Item) -> Outcome:
        """Queue ``item`` like :meth:`submit_batched`, wait, and return or raise the outcome."""
        return self._writer.write(run, item)

    def close(self) -> None:
        """Finish the queued jobs and close all connections."""
        self._writer.close()
        if self._unwanted is not None:
            self._unwanted.stop()
        self._engines.dispose()
        if self.is_sqlite:
            checkpoint_file(str(self.url.database))

    def _announce(self, commit: Commit) -> None:
        for listener in self._listeners:
            try:
                listener(commit)
            except Exception:
                LOG.exception("A listener failed on commit %d", commit.seq)
