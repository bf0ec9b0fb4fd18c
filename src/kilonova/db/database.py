# SPDX-License-Identifier: Apache-2.0
"""One database for one control process: snapshots for readers, one writer for everything else (``writer.py``).

A job may run more than once (a lost connection or lock retries the whole batch, and so does a job that fails beside
others), so it must do nothing but database work. Its result is handed over only after the commit is durable and every
listener has seen its changes. While the server is away the writer waits for it. Where the answer to a COMMIT was lost,
the change log tells whether it happened.
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
    settle,
    storage_full,
)
from kilonova.db.core.server_watch import AWAY
from kilonova.db.core.transaction import BatchedWrite, Transaction, run_singly
from kilonova.db.core.writer import Writer
from kilonova.errors import DeadlineExceeded, Unavailable
from kilonova.periodic import PeriodicThread

LOG = logging.getLogger(__name__)

T = TypeVar("T")
Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class Database:
    """A database, its readers' pool and its writer thread.

    ``own_clock``: tells the time where the database cannot, which is SQLite. ``clock``: the present for all processes.
    Raises: ConfigurationError for a URL that is none or a backend that is not supported.
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
        #: Whether no other control process can be at work on this database: that of SQLite is held by a lock.
        self.is_sole_process = self.is_sqlite
        self._engines = open_engines(self.url, longest_read_s, response_timeout_s)
        self._watch = self._engines.watch
        self._unwanted = None if self.is_sqlite else AbandonedReads(self._engines.patient)
        self._listeners: list[Callable[[Commit], None]] = []
        self.clock = DatabaseClock(own_clock if self.is_sqlite else None, self._ask_time)
        self._writer = Writer(
            self._engines.writer, self._watch, self.clock, self._announce, patience_s=response_timeout_s
        )

    def on_commit(self, listener: Callable[[Commit], None]) -> None:
        """Call ``listener`` with every commit of this process, in commit order, before its writers resume.

        It runs on the thread that writes, so it must not write itself. What it raises is logged and stops nobody.
        """
        self._listeners.append(listener)

    @property
    def waiting_writes(self) -> int:
        """How many jobs wait for the writer."""
        return self._writer.waiting

    @property
    def periodic_threads(self) -> Sequence[PeriodicThread]:
        """The periodic tasks that look after a server and its readers."""
        return (*self._watch.periodic_threads, *(() if self._unwanted is None else self._unwanted.periodic_threads))

    @property
    def unheard_writes(self) -> int:
        """How many writes happened so far, or may have, after their callers had been told that this is not known."""
        return self._writer.unheard

    @property
    def engine(self) -> Engine:
        """Where readers get their connections."""
        return self._engines.readers

    @contextmanager
    def read(self, *, patient: bool = False) -> Iterator[Connection]:
        """Give a connection inside one read transaction, which sees one state.

        The work ends with the deadline of this thread, also in the middle of a statement; ``patient``: however long it
        takes. Raises: Unavailable, DeadlineExceeded, ClientGone.
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
        """Return the seq of the last commit that any process made on a server. Raises: Unavailable."""
        assert self._engines.pulse is not None
        return self._engines.pulse.newest_seq()

    def _ask_time(self) -> datetime:
        with self.read() as connection:
            return change_log.time_of(connection)

    def write(self, job: Callable[[Transaction], T]) -> T:
        """Run ``job`` in a transaction and return its result once that is durable."""
        result: T = self.write_batched(run_singly, job)
        return result

    def write_unless_away(self, job: Callable[[Transaction], T]) -> T:
        """Do what :meth:`write` does, but like the work of a request, which is refused while the server is away.

        Raises: Unavailable.
        """
        with deadline.running(deadline.NEVER):
            return self.write(job)

    def submit(self, job: Callable[[Transaction], T]) -> "Future[T]":
        """Queue ``job`` for the writer; the future resolves after the commit."""
        return self.submit_batched(run_singly, job)

    def submit_batched(self, run: BatchedWrite[Item, Outcome], item: Item) -> "Future[Outcome]":
        """Queue ``item``; items waiting together for the same ``run`` are given to it in one call, in order.

        ``run`` answers with one outcome per item; an exception among them fails only that item, and ``run`` has
        undone what that item did.
        """
        return self._writer.submit(run, item)

    def write_batched(self, run: BatchedWrite[Item, Outcome], item: Item) -> Outcome:
        """Do what :meth:`submit_batched` does and return the outcome, or raise it."""
        return self._writer.write(run, item)

    def close(self) -> None:
        """Finish what is queued and let go of every connection."""
        self._writer.close()
        if self._unwanted is not None:
            self._unwanted.stop()
        self._engines.dispose()
        if self.is_sqlite:
            settle(str(self.url.database))

    def _announce(self, commit: Commit) -> None:
        for listener in self._listeners:
            try:
                listener(commit)
            except Exception:
                LOG.exception("A listener failed on commit %d", commit.seq)
