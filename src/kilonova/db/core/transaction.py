# SPDX-License-Identifier: Apache-2.0
"""Write transactions: they record the changes that mirrors must apply, and isolate the failures of their jobs.

A transaction with several jobs is first tried without savepoints; if a job fails, it is repeated with a savepoint each.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from functools import partial
from typing import Any, TypeVar, cast

from sqlalchemy.engine import Connection, CursorResult
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import Executable

from kilonova.db.change_log.changes import Change, Kind, Payload
from kilonova.db.core.engines import ends_transaction

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class Framing(Enum):
    """Isolation of the jobs of one transaction from each other's failures."""

    #: A single job: its failure rolls back the transaction.
    ALONE = auto()
    #: Several jobs without savepoints: the first try, which assumes that no job fails.
    NONE = auto()
    #: A savepoint for each job, at the cost of two more statements.
    EACH = auto()


class FramesNeeded(BaseException):
    """A job failed in a transaction of several jobs: repeat the transaction with a savepoint for each job."""


@dataclass(slots=True)
class AllUndone(BaseException):
    """The server has rolled back the whole transaction, not one job (deadlock, full disk), so it cannot continue."""

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

    def execute(self, statement: Executable, parameters: Any = None) -> CursorResult[Any]:
        return cast("CursorResult[Any]", self.connection.execute(statement, parameters))

    def log(self, kind: Kind, key: str, value: Payload | None) -> None:
        """Record a change for the mirrors. The last value of a (kind, key) wins; None means deleted."""
        self.changes.append(Change(kind, key, value))

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Run a block in a savepoint; if it raises, undo its rows and its logged changes. Raises: AllUndone."""
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
        """Run a job so that its failure undoes this job only.

        Raises: FramesNeeded, if the transaction must be repeated with savepoints for that; the errors of the job.
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
    """Return a batched write that calls ``write`` with all queued items, and bisects the batch if that raises.

    ``write`` may return an exception as the outcome of an item that changed nothing. ``refusal`` converts an exception
    raised for a single item into its outcome. Create each batched write once: only items that are queued for the same
    object share a batch.
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
    """Run unrelated jobs one after the other; a failed job is undone alone. Returns their outcomes or exceptions."""
    outcomes: list[Any] = []
    for job in jobs:
        try:
            outcomes.append(tx.attempt(partial(job, tx)))
        except Exception as error:
            if ends_transaction(error):
                raise
            outcomes.append(error)  # the thread that waits for this job raises the error
    return outcomes
