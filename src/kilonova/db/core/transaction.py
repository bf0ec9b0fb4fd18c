# SPDX-License-Identifier: Apache-2.0
"""What a job of the writer gets: a transaction that remembers what mirrors must know, and jobs kept apart in it.

A transaction is first tried without savepoints; where one job of several fails, everything is done again with one each.
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

from kilonova.db.change_log.changes import KINDS, Change, Payload
from kilonova.db.core.engines import ends_transaction

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class Framing(Enum):
    """How jobs of one transaction are kept apart."""

    #: There is only one, and its failure may undo everything.
    ALONE = auto()
    #: Not at all, in the hope that none fails.
    NONE = auto()
    #: By a savepoint each, which takes two statements more.
    EACH = auto()


class FramesNeeded(BaseException):
    """A job failed beside others: everything has to be done again, each job in a frame of its own."""


@dataclass(slots=True)
class AllUndone(BaseException):
    """The server has rolled back more than one job (a deadlock, a full disk): nothing may go on from here."""

    error: BaseException


class Transaction:
    """A write transaction. ``now`` is its one time stamp; ``log`` tells the mirrors what changed."""

    def __init__(self, connection: Connection, now: datetime, *, framing: Framing = Framing.EACH) -> None:
        self.connection = connection
        self.now = now
        self.is_spoilt = False
        self._framing = framing
        self.changes: list[Change] = []
        self.claims: list[str] = []

    def execute(self, statement: Executable, parameters: Any = None) -> CursorResult[Any]:
        return cast("CursorResult[Any]", self.connection.execute(statement, parameters))

    def log(self, kind: str, key: str, value: Payload | None) -> None:
        """Record a mirrored change. The last value logged for a (kind, key) wins; None says that it is gone."""
        assert kind in KINDS, kind
        self.changes.append(Change(kind, key, value))

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo both the rows and the logged changes of the block when it raises."""
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
        """Run a whole job, framed so that its failure undoes all that it did and nothing else."""
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
    """Return the outcome of an item that was alone. Raises: what it failed with."""
    (outcome,) = outcomes
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def batched(
    write: Callable[[Transaction, Sequence[Item]], Sequence[Outcome | BaseException]],
    refusal: Callable[[Exception], Outcome | BaseException] = lambda error: error,
) -> BatchedWrite[Item, Outcome]:
    """Return what runs ``write`` for all waiting items at once, and for halves, down to single ones, when that fails.

    An exception that ``write`` answers with, rather than raising it, is the outcome of an item that changed nothing.
    ``refusal`` turns the exception of an item alone into its outcome. Keep the result: only items given to the same one
    are written in one batch.
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
    """Run unrelated jobs after each other, each undone alone when it fails."""
    outcomes: list[Any] = []
    for job in jobs:
        try:
            outcomes.append(tx.attempt(partial(job, tx)))
        except Exception as error:
            if ends_transaction(error):
                raise
            outcomes.append(error)  # handed to the caller who waits for this job
    return outcomes
