# SPDX-License-Identifier: Apache-2.0
"""One database for one control process: snapshots for readers, one writer for everything else.

The writer takes whatever is waiting, runs it in one transaction and commits once (group commit). Of all processes on a
database one writes at a time: on SQLite by BEGIN IMMEDIATE, on a server because a transaction begins by locking the
row of the change counter. So a job may read, decide and write as if it were alone.

::

    caller ──write(job)──▶ queue ──▶ writer: lock; job … job; change log; COMMIT ──▶ listeners ──▶ callers

The writer is whichever thread has the baton. A caller that waits for its job anyway takes it when nobody has it, for
one transaction, and so spares two changes of threads; what comes in meanwhile is left to the writer thread.

A job may run more than once (a lost connection or lock retries the whole batch, and so does a job that fails beside
others), so it must do nothing but database work. Its result is handed over only after the commit is durable and every
listener has seen its changes. While the server is away the writer waits for it. Where the answer to a COMMIT was lost,
the change log tells whether it happened.
"""

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy.engine import Connection, Engine, RootTransaction
from sqlalchemy.exc import DBAPIError

from kilonova import deadline
from kilonova.db import change_log
from kilonova.db.engines import (
    checked_url,
    is_away,
    is_cancelled,
    is_full,
    is_retryable,
    open_engines,
    settle,
    storage_full,
)
from kilonova.db.pulse import Pulse
from kilonova.db.transaction import AllUndone, Commit, FramesNeeded, Framing, Merged, Transaction, run_singly
from kilonova.db.unwanted_reads import UnwantedReads
from kilonova.errors import DeadlineExceeded, StorageFull, Unavailable
from kilonova.identifiers import new_uuid

LOG = logging.getLogger(__name__)

T = TypeVar("T")
Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

_MAX_BATCH = 256
_MAX_TRIES = 12
_LONGEST_WAIT_S = 1.0


def utc_now() -> datetime:
    """Return the present in UTC, without zone, as the tables keep it."""
    return datetime.now(UTC).replace(tzinfo=None)


@dataclass(slots=True)
class _Job:
    run: Merged[Any, Any]
    item: Any
    future: Future[Any] = field(default_factory=Future)


class Database:
    """A database, its readers' pool and its writer thread.

    Raises: ConfigurationError for a URL that is none or a backend that is not supported.
    """

    def __init__(
        self, url: str, *, clock: Callable[[], datetime] = utc_now, longest_read_s: float | None = None
    ) -> None:
        self.url = checked_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._clock = clock
        self._engines = open_engines(self.url, longest_read_s)
        self._pulse = Pulse(self.engine)
        self._unwanted = None if self.is_sqlite else UnwantedReads(self._engines.patient)
        self._listeners: list[Callable[[Commit], None]] = []
        self._queue: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        #: Wakes the writer thread: there are jobs (True), or there will be no more (False).
        self._wake: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._writing: Connection | None = None
        #: Held by the one thread that writes.
        self._baton = threading.Lock()
        #: Held while a job is queued, so that none can slip in behind the end.
        self._gate = threading.Lock()
        self._closed = False
        self._is_full = False

    def on_commit(self, listener: Callable[[Commit], None]) -> None:
        """Call ``listener`` with every commit of this process, in commit order, before its writers resume.

        It runs on the thread that writes, so it must not write itself. What it raises is logged and stops nobody.
        """
        self._listeners.append(listener)

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
        try:
            with engine.begin() as connection:
                if self._unwanted is None:
                    yield connection
                else:
                    with self._unwanted.watched(connection):
                        yield connection
        except DBAPIError as error:
            if is_cancelled(error):
                deadline.check()
                raise DeadlineExceeded("The request took longer than the service allows.") from error
            if is_away(error):
                raise Unavailable("The database cannot be reached.") from error
            if is_full(error):
                raise storage_full(self.url, error) from error
            raise

    def newest_seq(self) -> int:
        """Return the seq of the last commit that any process made on a server. Raises: Unavailable."""
        return self._pulse.newest_seq()

    def write(self, job: Callable[[Transaction], T]) -> T:
        """Run ``job`` in a transaction and return its result once that is durable."""
        result: T = self.write_merged(run_singly, job)
        return result

    def submit(self, job: Callable[[Transaction], T]) -> "Future[T]":
        """Queue ``job`` for the writer; the future resolves after the commit."""
        return self.submit_merged(run_singly, job)

    def submit_merged(self, run: Merged[Item, Outcome], item: Item) -> "Future[Outcome]":
        """Queue ``item``; items waiting together for the same ``run`` are given to it in one call, in order.

        ``run`` answers with one outcome per item; an exception among them fails only that item, and ``run`` has
        undone what that item did.
        """
        job = self._queued(run, item)
        self._wake.put(True)
        return job.future

    def write_merged(self, run: Merged[Item, Outcome], item: Item) -> Outcome:
        """Do what :meth:`submit_merged` does and return the outcome, or raise it."""
        job = self._queued(run, item)
        if self._baton.acquire(blocking=False):
            try:
                with deadline.running(deadline.NEVER):  # others' jobs may be among these
                    self._write_waiting()
            finally:
                self._baton.release()
            if not self._queue.empty():
                self._wake.put(True)
        outcome: Outcome = job.future.result()
        return outcome

    def _queued(self, run: Merged[Any, Any], item: Any) -> _Job:
        job = _Job(run, item)
        with self._gate:
            if self._closed:
                raise Unavailable("The database is closed.")
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_forever, name="db-writer", daemon=True)
                self._thread.start()
            self._queue.put(job)
        return job

    def close(self) -> None:
        """Finish what is queued and let go of every connection."""
        with self._gate:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            self._wake.put(False)
            thread.join()
        self._pulse.close()
        if self._unwanted is not None:
            self._unwanted.stop()
        self._engines.dispose()
        if self.is_sqlite:
            settle(str(self.url.database))

    # --- the thread that writes ---------------------------------------------------------------------------------------

    def _write_forever(self) -> None:
        while True:
            goes_on = self._wake.get()
            while not self._queue.empty() or not goes_on:
                with self._baton:
                    self._write_waiting()
                    if not goes_on and self._queue.empty():
                        self._stop_writing()
                        return

    def _write_waiting(self) -> None:
        """Write what is waiting, up to a whole batch. Hold the baton."""
        batch: list[_Job] = []
        with contextlib.suppress(queue.Empty):
            while len(batch) < _MAX_BATCH:
                job = self._queue.get_nowait()
                if job.future.set_running_or_notify_cancel():
                    batch.append(job)
        if batch:
            self._write_batch(batch)

    def _write_batch(self, batch: list[_Job]) -> None:
        try:
            done = self._transact_until_done(batch)
        except _OutcomeUnknown as error:
            LOG.exception("It is not known whether %d writes happened", len(batch))
            for job in batch:
                unknown = Unavailable("The database cannot be reached; it is not known whether this was written.")
                unknown.__cause__ = error
                job.future.set_exception(unknown)
            return
        except Exception as error:
            if len(batch) > 1:
                for job in batch:
                    self._write_batch([job])
                return
            if isinstance(error, StorageFull):
                self._tell_of_full_disk(error)
            else:
                LOG.exception("A write failed")
            batch[0].future.set_exception(error)
            return
        if self._is_full and not all(isinstance(outcome, BaseException) for outcome in done.outcomes):
            LOG.info("There is room for writes again")
            self._is_full = False
        if done.commit is not None:
            self._announce(done.commit)
        for job, outcome in zip(batch, done.outcomes, strict=True):
            if isinstance(outcome, BaseException):
                job.future.set_exception(outcome)
            else:
                job.future.set_result(outcome)

    def _tell_of_full_disk(self, error: StorageFull) -> None:
        """Log it once, however many writes are refused until there is room."""
        if not self._is_full:
            LOG.error("Writes are refused: %s", error.what)
            self._is_full = True

    def _transact_until_done(self, batch: list[_Job]) -> "_Done":
        """Repeat the transaction while that may help: a few times after a conflict, for ever while the server is away.

        Raises: Unavailable when the database is closed meanwhile; any error that repeating does not mend.
        """
        conflicts = waits = 0
        doubt: _InDoubt | None = None
        while True:
            try:
                if doubt is not None:
                    if self._has_landed(doubt.token):
                        return doubt.done
                    failed, doubt = doubt.error, None
                    if not is_retryable(failed) or conflicts >= _MAX_TRIES:
                        raise failed
                done = self._transact(batch)
            except _InDoubt as unknown:
                doubt = unknown
                conflicts += 1
                if not is_full(doubt.error):
                    LOG.warning("A commit of %d writes went unanswered: %s", len(batch), doubt.error.orig)
            except DBAPIError as error:
                if is_away(error) and not self._closed:
                    if not waits:
                        LOG.warning("The database is away, %d writes wait for it: %s", len(batch), error.orig)
                    time.sleep(min(0.01 * 2 ** min(waits, 10), _LONGEST_WAIT_S))
                    waits += 1
                elif is_retryable(error) and not is_away(error) and conflicts < _MAX_TRIES:
                    LOG.info("Write batch of %d retried after: %s", len(batch), error.orig)
                    time.sleep(min(0.004 * 2**conflicts, 0.25))
                    conflicts += 1
                elif doubt is not None:
                    raise _OutcomeUnknown from error
                elif is_away(error):
                    raise Unavailable("The database cannot be reached.") from error
                elif is_full(error):
                    raise storage_full(self.url, error) from error
                else:
                    raise
            else:
                if waits:
                    LOG.info("The database is back")
                return done

    def _announce(self, commit: Commit) -> None:
        for listener in self._listeners:
            try:
                listener(commit)
            except Exception:
                LOG.exception("A listener failed on commit %d", commit.seq)

    def _transact(self, batch: list[_Job]) -> "_Done":
        try:
            if len(batch) == 1:
                return self._transact_once(batch, Framing.ALONE)
            try:
                return self._transact_once(batch, Framing.NONE)
            except FramesNeeded:
                return self._transact_once(batch, Framing.EACH)
        except AllUndone as undone:
            raise undone.error from None

    def _transact_once(self, batch: list[_Job], framing: Framing) -> "_Done":
        outcomes: dict[int, Any] = {}
        token = new_uuid()
        with self._begin() as (connection, transaction):
            seq = change_log.lock(connection)
            tx = Transaction(connection, self._clock(), framing=framing)
            for run, members in _grouped(batch):
                outcomes.update(zip(members, run(tx, [batch[index].item for index in members]), strict=True))
            in_order = [outcomes[index] for index in range(len(batch))]
            if tx.is_spoilt:
                transaction.rollback()
                return _Done(None, in_order)
            done = _Done(change_log.append(tx, token, seq), in_order)
            try:
                transaction.commit()
            except DBAPIError as error:
                raise _InDoubt(token, done, error) from error
        return done

    @contextmanager
    def _begin(self) -> Iterator[tuple[Connection, RootTransaction]]:
        """Begin a transaction on the writer's connection, which is kept for the next one unless something fails."""
        if self._writing is None:
            self._writing = self._engines.writer.connect()
        try:
            with self._writing.begin() as transaction:
                yield self._writing, transaction
        except BaseException:
            self._stop_writing()
            raise

    def _stop_writing(self) -> None:
        connection, self._writing = self._writing, None
        if connection is not None:
            connection.close()

    def _has_landed(self, token: str) -> bool:
        """Whether a commit without an answer happened. Waits for the lock that its transaction may still hold."""
        with self._begin() as (connection, transaction):
            change_log.lock(connection)
            found = change_log.has(connection, token)
            transaction.rollback()
        return found


class _OutcomeUnknown(Exception):
    """A commit went unanswered, and nobody could be asked whether it happened."""


@dataclass(frozen=True, slots=True)
class _Done:
    """What one transaction did. ``commit`` is None when it told the mirrors nothing."""

    commit: Commit | None
    outcomes: Sequence[Any]


@dataclass(slots=True)
class _InDoubt(Exception):
    """COMMIT was sent and failed or went unanswered. The log row with ``token`` is there if it happened."""

    token: str
    done: _Done
    error: DBAPIError


def _grouped(batch: Sequence[_Job]) -> Iterable[tuple[Merged[Any, Any], list[int]]]:
    """Return for each way of running, in order of appearance, the places of its jobs."""
    groups: dict[Merged[Any, Any], list[int]] = {}
    for index, job in enumerate(batch):
        groups.setdefault(job.run, []).append(index)
    return groups.items()
