# SPDX-License-Identifier: Apache-2.0
"""The one writer of a process: runs all queued jobs in one transaction and commits once (group commit).

Only one process writes to a database at a time. On SQLite, BEGIN IMMEDIATE ensures this; on PostgreSQL and MariaDB,
each transaction first locks the row of the change counter. So a job may read, decide and write without races.

::

    caller ──write(job)──▶ queue ──▶ writer: lock; job … job; change log; COMMIT ──▶ listeners ──▶ callers

Only the thread that holds a lock, the baton, writes. If the baton is free, a caller takes it and writes one
transaction, because it must wait for its job anyway: this saves two thread switches. The writer thread writes all jobs
that are queued meanwhile.

While the server is unreachable, the writer thread keeps the unwritten jobs and retries; a caller that has taken the
baton leaves its jobs to the writer thread. Jobs of requests fail after ``timeout_s``, so that the requests are
answered.
"""

import contextlib
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

from kilonova import deadline
from kilonova.db.change_log.changes import Commit
from kilonova.db.core.clock import DatabaseClock
from kilonova.db.core.engines import is_away, is_full, is_retryable, storage_full
from kilonova.db.core.pending_outcome import PendingOutcome
from kilonova.db.core.server_watch import AWAY, Watch
from kilonova.db.core.transaction import BatchedWrite
from kilonova.db.core.writer_connection import Done, InDoubt, WriterConnection
from kilonova.errors import StorageFull, Unavailable
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

_MAX_BATCH = 256
_MAX_TRIES = 12
_LONGEST_WAIT_S = 1.0
#: Number of retries in a caller's thread, enough after a server restart; further retries are left to the writer thread.
_OWN_TRIES = 2
#: Interval in seconds at which a waiting request checks whether the database server is unreachable.
_LOOK_EVERY_S = 0.25
_NOTHING_WRITTEN = f"{AWAY} Nothing was written."
_UNKNOWN = "The database cannot be reached; it is not known whether this was written."


@dataclass(slots=True)
class _Job:
    """A queued write. ``until``: monotonic time at which the job fails if the server is unreachable; None: never."""

    run: BatchedWrite[Any, Any]
    item: Any
    future: Future[Any] | PendingOutcome
    until: float | None = None

    @property
    def is_given_up(self) -> bool:
        return self.until is not None and time.monotonic() > self.until

    def resolve(self, outcome: Any) -> None:
        """Set the outcome, unless the caller has an answer already."""
        if self.future.done():
            return
        if isinstance(outcome, BaseException):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)


@dataclass(slots=True)
class _Attempt:
    """The jobs of one transaction, with the state of its retries.

    ``doubt``: a commit without answer, which must be verified first. ``conflicts``: number of retries after conflicts.
    ``waits``: number of retries while the server was unreachable.
    """

    batch: list[_Job]
    doubt: InDoubt | None = None
    conflicts: int = 0
    waits: int = 0

    def let_go(self) -> None:
        """Fail the jobs that have waited for an unreachable server for longer than their time limit."""
        for job in [job for job in self.batch if job.is_given_up]:
            if self.doubt is None:
                self.batch.remove(job)
                job.resolve(Unavailable(_NOTHING_WRITTEN))
            else:
                job.resolve(Unavailable(_UNKNOWN))

    def begin_again(self) -> None:
        """Prepare a retry after a commit that did not happen: drop the jobs whose callers got an answer already."""
        self.doubt = None
        self.batch = [job for job in self.batch if not job.future.done()]


class Writer:
    """Queue and executor of all writes of a process.

    ``announce``: is called with every commit, in commit order, before the callers of its jobs resume.
    ``timeout_s``: seconds that the write of a request waits for an unreachable server.
    """

    def __init__(
        self,
        engine: Engine,
        watch: Watch,
        clock: DatabaseClock,
        announce: Callable[[Commit], None],
        *,
        timeout_s: float,
    ) -> None:
        self._url = engine.url
        self._connection = WriterConnection(engine, clock)
        self._watch = watch
        self._announce = announce
        self._timeout_s = timeout_s
        #: Number of writes whose callers got the outcome "unknown", although the writes may have been committed.
        self.unheard = 0
        self._queue: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        #: Wakes the writer thread: jobs are queued (True), or the writer is closed (False).
        self._wake: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        #: Held by the one thread that is writing.
        self._baton = threading.Lock()
        #: Transactions that were started and are not finished; they are finished before a new one is started.
        self._begun: deque[_Attempt] = deque()
        #: Held while a job is queued, so that no job is queued after the close.
        self._gate = threading.Lock()
        self._closed = False
        self._is_full = False
        self._is_away = False

    @property
    def waiting(self) -> int:
        """Number of queued jobs that are not started."""
        return self._queue.qsize()

    def submit(self, run: BatchedWrite[Item, Outcome], item: Item) -> "Future[Outcome]":
        """Queue ``item`` for ``run``; all queued items of the same ``run`` are passed to it in one call, in order."""
        future: Future[Outcome] = Future()
        self._queued(_Job(run, item, future))
        self._wake.put(True)
        return future

    def write(self, run: BatchedWrite[Item, Outcome], item: Item) -> Outcome:
        """Queue ``item``, write it in this thread if no other thread is writing, and return its outcome or raise it.

        The write of a request (a thread with a deadline) fails after ``timeout_s`` if the server is unreachable.
        Raises: Unavailable.
        """
        until = None
        if deadline.current() is not None:
            self._watch.require_answers()
            until = time.monotonic() + self._timeout_s
        pending = PendingOutcome()
        job = self._queued(_Job(run, item, pending, until))
        if self._baton.acquire(blocking=False):
            try:
                # ignore this request's deadline: the batch may include jobs of other requests
                with deadline.running(deadline.NEVER):
                    self._write_waiting(may_wait=False)
            finally:
                self._baton.release()
            if self._begun or not self._queue.empty():
                self._wake.put(True)
        outcome: Outcome = self._outcome_of(job, pending)
        return outcome

    def close(self) -> None:
        """Finish the queued jobs, and stop; jobs for which the server gives no answer fail."""
        with self._gate:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            self._wake.put(False)
            thread.join()

    def _queued(self, job: _Job) -> _Job:
        with self._gate:
            if self._closed:
                raise Unavailable("The database is closed.")
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_forever, name="db-writer", daemon=True)
                self._thread.start()
            self._queue.put(job)
        return job

    def _outcome_of(self, job: _Job, pending: PendingOutcome) -> Any:
        while not pending.wait(-1 if job.until is None else _LOOK_EVERY_S):
            if self._is_away and job.is_given_up and pending.cancel():  # cancel() fails once the job has started
                raise Unavailable(_NOTHING_WRITTEN)
        return pending.result()

    # --- writing: hold the baton --------------------------------------------------------------------------------------

    def _write_forever(self) -> None:
        while True:
            goes_on = self._wake.get()
            while self._begun or not self._queue.empty() or not goes_on:
                with self._baton:
                    self._write_waiting(may_wait=True)
                    if not goes_on and self._queue.empty() and not self._begun:
                        self._connection.close()
                        return

    def _write_waiting(self, *, may_wait: bool) -> None:
        """Finish the transactions that were started; if there were none, write one batch of queued jobs."""
        if not self._begun and (batch := self._next_batch()):
            self._begun.append(_Attempt(batch))
        try:
            while self._begun:
                self._finish(self._begun[0], may_wait=may_wait)
        except _NotNow:
            return

    def _next_batch(self) -> list[_Job]:
        batch: list[_Job] = []
        with contextlib.suppress(queue.Empty):
            while len(batch) < _MAX_BATCH:
                job = self._queue.get_nowait()
                if job.future.set_running_or_notify_cancel():
                    batch.append(job)
        return batch

    def _finish(self, attempt: _Attempt, *, may_wait: bool) -> None:
        """Finish the oldest started transaction and answer the callers of its jobs.

        Raises: _NotNow; the transaction is then still the oldest started one.
        """
        try:
            done = self._transact_until_done(attempt, may_wait=may_wait)
        except _OutcomeUnknown as error:
            LOG.exception("The outcome of %d writes is unknown", len(attempt.batch))
            self._begun.popleft()
            self.unheard += len(attempt.batch)
            for job in attempt.batch:
                unknown = Unavailable(_UNKNOWN)
                unknown.__cause__ = error
                job.resolve(unknown)
            return
        except _NotNow:
            raise
        except Exception as error:
            self._begun.popleft()
            if len(attempt.batch) > 1:
                self._begun.extendleft(_Attempt([job]) for job in reversed(attempt.batch))
                return
            if isinstance(error, StorageFull):
                self._tell_of_full_disk(error)
            else:
                LOG.exception("A write failed")
            attempt.batch[0].resolve(error)
            return
        self._begun.popleft()
        if self._is_full and not all(isinstance(outcome, BaseException) for outcome in done.outcomes):
            LOG.info("Writes succeed again: the database has disk space")
            self._is_full = False
        if done.commit is not None:
            self._announce(done.commit)
        for job, outcome in zip(attempt.batch, done.outcomes, strict=True):
            self.unheard += job.future.done()
            job.resolve(outcome)

    def _tell_of_full_disk(self, error: StorageFull) -> None:
        """Log a full disk once, not again for each write that fails until the disk has space."""
        if not self._is_full:
            LOG.error("Writes are refused: %s", error.what)
            self._is_full = True

    def _transact_until_done(self, attempt: _Attempt, *, may_wait: bool) -> Done:
        """Retry the transaction until it succeeds: a few times after conflicts, for ever if the server is unreachable.

        Raises: _NotNow, if the server is unreachable and this thread may not wait; _OutcomeUnknown; Unavailable, if the
        writer has been closed; any error that would occur again in a retry.
        """
        while attempt.batch:
            if self._watch.is_silent and not self._closed:
                self._await_answers(attempt, may_wait=may_wait)
                continue
            try:
                if attempt.doubt is not None:
                    if self._connection.has_landed(attempt.doubt.token):
                        return attempt.doubt.done
                    failed = attempt.doubt.error
                    attempt.begin_again()
                    if not is_retryable(failed) or attempt.conflicts >= _MAX_TRIES:
                        raise failed
                    continue
                done = self._connection.write(attempt.batch)
            except InDoubt as unknown:
                attempt.doubt = unknown
                attempt.conflicts += 1
                if not is_full(unknown.error):
                    LOG.warning(
                        "A commit of %d writes went unanswered: %s", len(attempt.batch), _first_line(unknown.error)
                    )
            except DBAPIError as error:
                if is_away(error) and not self._closed:
                    self._wait_before_next_try(attempt, error, may_wait=may_wait)
                elif is_retryable(error) and not is_away(error) and attempt.conflicts < _MAX_TRIES:
                    LOG.info("A transaction of %d writes is retried after: %s", len(attempt.batch), error.orig)
                    time.sleep(min(0.004 * 2**attempt.conflicts, 0.25))
                    attempt.conflicts += 1
                elif attempt.doubt is not None:
                    raise _OutcomeUnknown from error
                elif is_away(error):
                    raise Unavailable(AWAY) from error
                elif is_full(error):
                    raise storage_full(self._url, error) from error
                else:
                    raise
            else:
                if self._is_away:
                    LOG.info("The database is reachable again")
                    self._is_away = False
                self._watch.heard()
                return done
        return Done(None, ())

    def _await_answers(self, attempt: _Attempt, *, may_wait: bool) -> None:
        """Wait ``_LOOK_EVERY_S`` for a hung server without sending a statement. Raises: _NotNow."""
        if not may_wait:
            raise _NotNow
        self._is_away = True
        self._watch.wait(_LOOK_EVERY_S)
        attempt.let_go()

    def _wait_before_next_try(self, attempt: _Attempt, error: DBAPIError, *, may_wait: bool) -> None:
        """Back off before the next try to reach the server. Raises: _NotNow, to leave the retries to the writer thread.

        The back-off is exponential, up to ``_LONGEST_WAIT_S``.
        """
        if not self._is_away:
            LOG.warning("The database is unreachable; %d writes wait: %s", len(attempt.batch), _first_line(error))
            self._is_away = True
        attempt.waits += 1
        if not may_wait and attempt.waits > _OWN_TRIES:
            raise _NotNow
        time.sleep(min(0.01 * 2 ** min(attempt.waits, 10), _LONGEST_WAIT_S))
        attempt.let_go()


class _NotNow(Exception):
    """The server is unreachable, and this is a caller's thread, which leaves the retries to the writer thread."""


class _OutcomeUnknown(Exception):
    """A commit got no answer, and the server could not be reached to verify whether the transaction was committed."""


def _first_line(error: DBAPIError) -> str:
    return next(iter(str(error.orig).splitlines()), "")
