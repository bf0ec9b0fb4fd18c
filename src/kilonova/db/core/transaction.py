# SPDX-License-Identifier: Apache-2.0
"""Write transactions: they record the changes for the mirrors, and undo a failed job without the other jobs.

A transaction of several jobs is first tried without savepoints; if a job fails, the whole transaction is repeated with
a savepoint for each job.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import Enum, auto
from functools import partial
from typing import Any, TypeVar, cast

from sqlalchemy.engine import Connection, CursorResult
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import Executable

from kilonova.db.change_log.changes import Change, Kind, Payload
from kilonova.db.core.engines import ends_transaction
from kilonova.db.core.pipeline import pipelined
from kilonova.records import dataclass

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class Framing(Enum):
    """Whether the jobs of a transaction run in savepoints, so that a failed job is undone without the others."""

    #: A single job: its failure rolls back the transaction.
    ALONE = auto()
    #: Several jobs without savepoints, which is the first try of every transaction of several jobs.
    NONE = auto()
    #: Several jobs with a savepoint for each, at the cost of two more statements for each job.
    EACH = auto()


class FramesNeeded(BaseException):
    """A job failed in a transaction of several jobs: repeat the transaction with a savepoint for each job."""


@dataclass(slots=True)
class AllUndone(BaseException):
    """The database has undone the whole transaction (deadlock, full disk), so that no further job can run in it."""

    error: BaseException


class Transaction:
    """A write transaction. ``now``: the time stamp of all its rows, in UTC; ``log`` records changes for the mirrors."""

    def __init__(self, connection: Connection, now: datetime, *, framing: Framing = Framing.EACH) -> None:
        self.connection = connection
        self.now = now
        self.is_spoilt = False
        self._framing = framing
        self.changes: list[Change] = []
        self.claims: list[str] = []
        #: What to do when the statements of a :meth:`together` block are answered; None outside of such a block.
        self._then: list[Callable[[], None]] | None = None

    def execute(self, statement: Executable, parameters: Any = None) -> CursorResult[Any]:
        return cast("CursorResult[Any]", self.connection.execute(statement, parameters))

    def log(self, kind: Kind, key: str, value: Payload | None) -> None:
        """Record a change for the change log, which gets only the last change of each (kind, key).

        ``value``: None if deleted.
        """
        self.changes.append(Change(kind, key, value))

    @contextmanager
    def together(self) -> Iterator[None]:
        """Send the statements of the ``with`` block in one round trip, on PostgreSQL and MariaDB.

        See ``db/core/pipeline.py`` for the statements that are allowed. The answers are read by functions that are
        passed to :meth:`then`, which are called after the block.
        """
        then = self._then = []
        try:
            with pipelined(self.connection):
                yield
        finally:
            self._then = None
        for action in then:
            action()

    def then(self, action: Callable[[], None]) -> None:
        """Call ``action`` as soon as the statements so far are answered: now, or at the end of :meth:`together`."""
        if self._then is None:
            action()
        else:
            self._then.append(action)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Run the ``with`` block in a savepoint; if it raises, undo its rows and logged changes. Raises: AllUndone."""
        changes, claims = len(self.changes), len(self.claims)
        nested = self.connection.begin_nested()
        try:
            yield
        except BaseException as error:
            del self.changes[changes:]
            del self.claims[claims:]
            try:
                nested.rollback()
            except DBAPIError:
                raise AllUndone(error) from error
            raise
        try:
            nested.commit()
        except DBAPIError as error:
            raise AllUndone(error) from error

    def attempt(self, job: Callable[[], Outcome]) -> Outcome:
        """Run ``job`` so that its failure undoes only its own changes.

        Raises: the errors of the job; FramesNeeded, if the job failed in a transaction without the necessary savepoint.
        """
        if self._framing is Framing.EACH:
            with self.savepoint():
                return job()
        try:
            return job()
        except Exception as error:
            self.is_spoilt = True
            if self._framing is Framing.NONE and not ends_transaction(error):
                raise FramesNeeded from error
            raise


BatchedWrite = Callable[[Transaction, Sequence[Item]], Sequence[Outcome | BaseException]]


def only(outcomes: Sequence[Outcome | BaseException]) -> Outcome:
    """Return the only outcome of a batch of one item, or raise it if it is an exception."""
    (outcome,) = outcomes
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def batched(
    write: Callable[[Transaction, Sequence[Item]], Sequence[Outcome | BaseException]],
    refusal: Callable[[Exception], Outcome | BaseException] = lambda error: error,
) -> BatchedWrite[Item, Outcome]:
    """Return a batched write: it calls ``write`` with all queued items and, if that raises, with each half of them.

    ``write`` may return an exception as the outcome of an item that changed nothing. ``refusal`` converts an exception
    that ``write`` raises for a single item into the outcome of that item. Create each batched write once: items share a
    batch only if they are queued for the same function object.
    """

    def run(tx: Transaction, items: Sequence[Item]) -> Sequence[Outcome | BaseException]:
        try:
            return tx.attempt(lambda: write(tx, items))
        except Exception as error:
            if ends_transaction(error):
                raise
            if len(items) > 1:
                half = len(items) // 2
                return [*run(tx, items[:half]), *run(tx, items[half:])]
            return [refusal(error)]

    return run


def run_singly(tx: Transaction, jobs: Sequence[Callable[[Transaction], Any]]) -> Sequence[Any]:
    """Run unrelated jobs one after the other; return an outcome for each, which is the exception of a failed job."""
    outcomes: list[Any] = []
    for job in jobs:
        try:
            outcomes.append(tx.attempt(partial(job, tx)))
        except Exception as error:
            if ends_transaction(error):
                raise
            outcomes.append(error)  # the thread that waits for this job raises the error
    return outcomes
