# SPDX-License-Identifier: Apache-2.0
"""One database for one control process: snapshots for readers, one writer thread for everything else.

The writer takes whatever is waiting, runs it in one transaction and commits once (group commit). Of all processes on a
database one writes at a time: on SQLite by BEGIN IMMEDIATE, on a server because a transaction begins by locking the
row of the change counter. So a job may read, decide and write as if it were alone.

::

    caller ──write(job)──▶ queue ──▶ writer thread: lock; job … job; change log; COMMIT ──▶ listeners ──▶ callers

A job may run more than once (a lost connection or lock retries the whole batch), so it must do nothing but database
work. Its result is handed over only after the commit is durable and every listener has seen its changes. While the
server is away the writer waits for it. Where the answer to a COMMIT was lost, the change log tells whether it happened.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection, CursorResult
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import Executable

from kilonova.db import tables as t
from kilonova.db.engines import IMMEDIATE, checked_url, is_away, is_retryable, open_engines
from kilonova.errors import Unavailable
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


@dataclass(frozen=True, slots=True)
class Change:
    """One mirrored fact, as an absolute value; ``value`` None says that ``key`` is gone."""

    kind: str
    key: str
    value: Any


@dataclass(frozen=True, slots=True)
class Commit:
    """What one transaction changed. ``claims`` are the ids of the claims that became durable with it."""

    seq: int
    changes: tuple[Change, ...]
    claims: tuple[str, ...] = ()


class Transaction:
    """A write transaction. ``now`` is its one time stamp; ``log`` tells the mirrors what changed."""

    def __init__(self, connection: Connection, now: datetime, *, alone: bool = False) -> None:
        self.connection = connection
        self.now = now
        self.is_spoilt = False
        self._alone = alone
        self.changes: list[Change] = []
        self.claims: list[str] = []

    def execute(self, statement: Executable, parameters: Any = None) -> CursorResult[Any]:
        return cast("CursorResult[Any]", self.connection.execute(statement, parameters))

    def log(self, kind: str, key: str, value: Any) -> None:
        """Record a mirrored change. The last value logged for a (kind, key) wins."""
        self.changes.append(Change(kind, key, value))

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo both the rows and the logged changes of the block when it raises."""
        changes, claims = len(self.changes), len(self.claims)
        try:
            with self.connection.begin_nested():
                yield
        except BaseException:
            del self.changes[changes:]
            del self.claims[claims:]
            raise

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Frame a whole job: a savepoint, unless it is the only one and its failure can undo everything."""
        if not self._alone:
            with self.savepoint():
                yield
            return
        try:
            yield
        except BaseException:
            self.is_spoilt = True
            raise


Merged = Callable[[Transaction, Sequence[Item]], Sequence[Outcome | BaseException]]


@dataclass(slots=True)
class _Job:
    run: Merged[Any, Any]
    item: Any
    future: Future[Any] = field(default_factory=Future)


def together(
    write: Callable[[Transaction, Sequence[Item]], Sequence[Outcome]],
    refusal: Callable[[Exception], Outcome | BaseException] = lambda error: error,
) -> Merged[Item, Outcome]:
    """Return what runs ``write`` for all waiting items at once, and for each alone when that fails.

    ``refusal`` turns the exception of an item alone into its outcome. Keep the result: items are merged by it.
    """

    def run(tx: Transaction, items: Sequence[Item]) -> Sequence[Outcome | BaseException]:
        try:
            with tx.attempt():
                return write(tx, items)
        except Exception as error:
            if isinstance(error, DBAPIError) and is_retryable(error):
                raise
            if len(items) > 1:
                return [outcome for item in items for outcome in run(tx, [item])]
            return [refusal(error)]

    return run


def _run_singly(tx: Transaction, jobs: Sequence[Callable[[Transaction], Any]]) -> Sequence[Any]:
    """Run unrelated jobs after each other, each undone alone when it fails."""
    outcomes: list[Any] = []
    for job in jobs:
        try:
            with tx.attempt():
                outcomes.append(job(tx))
        except DBAPIError as error:
            if is_retryable(error):
                raise
            outcomes.append(error)
        except Exception as error:  # noqa: BLE001 - handed to the caller who waits for this job
            outcomes.append(error)
    return outcomes


class Database:
    """A database, its readers' pool and its writer thread.

    Raises: ConfigurationError for a URL that is none or a backend that is not supported.
    """

    def __init__(self, url: str, *, clock: Callable[[], datetime] = utc_now) -> None:
        self.url = _checked_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._clock = clock
        self.engine = _create_engine(self.url)
        self._listeners: list[Callable[[Commit], None]] = []
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        #: Held while a job is queued, so that none can slip in behind the end.
        self._gate = threading.Lock()
        self._closed = False

    def on_commit(self, listener: Callable[[Commit], None]) -> None:
        """Call ``listener`` with every commit of this process, in commit order, before its writers resume.

        It runs on the writer thread, so it must not write itself. What it raises is logged and stops nobody.
        """
        self._listeners.append(listener)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection inside one read transaction."""
        with self.engine.begin() as connection:
            yield connection

    def write(self, job: Callable[[Transaction], T]) -> T:
        """Run ``job`` in a transaction and return its result once that is durable."""
        result: T = self.submit(job).result()
        return result

    def submit(self, job: Callable[[Transaction], T]) -> "Future[T]":
        """Queue ``job`` for the writer; the future resolves after the commit."""
        return self.submit_merged(_run_singly, job)

    def submit_merged(self, run: Merged[Item, Outcome], item: Item) -> "Future[Outcome]":
        """Queue ``item``; items waiting together for the same ``run`` are given to it in one call, in order.

        ``run`` answers with one outcome per item; an exception among them fails only that item, and ``run`` has
        undone what that item did.
        """
        job = _Job(run, item)
        with self._gate:
            if self._closed:
                raise Unavailable("The database is closed.")
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_forever, name="db-writer", daemon=True)
                self._thread.start()
            self._queue.put(job)
        return job.future

    def close(self) -> None:
        """Finish what is queued and let go of every connection."""
        with self._gate:
            self._closed = True
            thread, self._thread = self._thread, None
            if thread is not None:
                self._queue.put(None)
        if thread is not None:
            thread.join()
        self.engine.dispose()

    # --- the writer thread --------------------------------------------------------------------------------------------

    def _write_forever(self) -> None:
        while True:
            job = self._queue.get()
            batch: list[_Job] = []
            while job is not None:
                if job.future.set_running_or_notify_cancel():
                    batch.append(job)
                if len(batch) >= _MAX_BATCH:
                    break
                try:
                    job = self._queue.get_nowait()
                except queue.Empty:
                    break
            if batch:
                self._write_batch(batch)
            if job is None:
                return

    def _write_batch(self, batch: list[_Job]) -> None:
        for attempt in range(1, _MAX_TRIES + 1):
            try:
                commit, outcomes = self._transact(batch)
            except Exception as error:
                if isinstance(error, DBAPIError) and is_retryable(error) and attempt < _MAX_TRIES:
                    LOG.info("Write batch of %d retried after: %s", len(batch), error.orig)
                    time.sleep(min(0.002 * 2**attempt, 0.25))
                    continue
                if len(batch) > 1:
                    for job in batch:
                        self._write_batch([job])
                    return
                LOG.exception("A write failed")
                batch[0].future.set_exception(error)
                return
            break
        if commit is not None:
            self._announce(commit)
        for job, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                job.future.set_exception(outcome)
            else:
                job.future.set_result(outcome)

    def _announce(self, commit: Commit) -> None:
        for listener in self._listeners:
            try:
                listener(commit)
            except Exception:
                LOG.exception("A listener failed on commit %d", commit.seq)

    def _transact(self, batch: list[_Job]) -> tuple[Commit | None, list[Any]]:
        outcomes: list[Any] = []
        commit: Commit | None = None
        token = new_uuid()
        immediate = self.engine.connect().execution_options(**{_IMMEDIATE: True})
        with immediate as connection, connection.begin() as transaction:
            tx = Transaction(connection, self._clock(), alone=len(batch) == 1)
            start = 0
            while start < len(batch):
                end = start + 1
                while end < len(batch) and batch[end].run == batch[start].run:
                    end += 1
                outcomes += batch[start].run(tx, [job.item for job in batch[start:end]])
                start = end
            if tx.is_spoilt:
                transaction.rollback()
                return None, outcomes
            if tx.changes:
                commit = _append_to_log(tx, token)
            try:
                transaction.commit()
            except DBAPIError:
                # The answer may have been lost after the commit: the log knows.
                if commit is None or not self._has_landed(token):
                    raise
        return commit, outcomes

    def _has_landed(self, token: str) -> bool:
        with self.read() as connection:
            wanted = sa.select(t.change_log.c.seq).where(t.change_log.c.token == token)
            return connection.execute(wanted).first() is not None


def _append_to_log(tx: Transaction, token: str) -> Commit:
    """Take the next seq (its row lock lasts until commit, so seq order is commit order) and write the log row."""
    latest: dict[tuple[str, str], Change] = {}
    for change in tx.changes:
        latest.pop((change.kind, change.key), None)
        latest[change.kind, change.key] = change
    changes = tuple(latest.values())
    tx.execute(sa.update(t.change_counter).where(t.change_counter.c.id == 1).values(seq=t.change_counter.c.seq + 1))
    seq = tx.execute(sa.select(t.change_counter.c.seq)).scalar_one()
    body = encode_body(changes, tuple(tx.claims))
    row = {"seq": seq, "token": token, "created_at": tx.now, "body": body}
    tx.execute(sa.insert(t.change_log), row)
    return Commit(seq, changes, tuple(tx.claims))


def encode_body(changes: Sequence[Change], claims: Sequence[str]) -> bytes:
    return orjson.dumps({"changes": [(c.kind, c.key, c.value) for c in changes], "claims": list(claims)})


def decode_commit(seq: int, body: bytes) -> Commit:
    content = orjson.loads(body)
    return Commit(seq, tuple(Change(*change) for change in content["changes"]), tuple(content["claims"]))
