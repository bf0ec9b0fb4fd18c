# SPDX-License-Identifier: Apache-2.0
"""The writer's connection, and one transaction on it: lock; job … job; change log; COMMIT.

The writer (``writer.py``) chooses the jobs of a transaction, and retries a failed transaction.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError

from kilonova.db.change_log.changes import Commit
from kilonova.db.core import change_log
from kilonova.db.core.clock import DatabaseClock
from kilonova.db.core.pipeline import pipelined, send_commit
from kilonova.db.core.transaction import AllUndone, BatchedWrite, FramesNeeded, Framing, Transaction
from kilonova.identifiers import new_uuid
from kilonova.records import dataclass


class Job(Protocol):
    """A write to do. ``run`` is called once with the items of all jobs of the batch that have the same ``run``."""

    @property
    def run(self) -> BatchedWrite[Any, Any]: ...

    @property
    def item(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Done:
    """Result of a transaction. ``commit``: its change-log row, None if it has none; ``outcomes``: one for each job."""

    commit: Commit | None
    outcomes: Sequence[Any]


@dataclass(slots=True)
class InDoubt(Exception):
    """COMMIT failed or went unanswered. If the change log has a row with ``token``, the transaction was committed."""

    token: str
    done: Done
    error: DBAPIError


class WriterConnection:
    """The connection of the writer, which all transactions use until an error closes it. For one thread at a time."""

    def __init__(self, engine: Engine, clock: DatabaseClock) -> None:
        self._engine = engine
        self._clock = clock
        self._connection: Connection | None = None

    def write(self, batch: Sequence[Job]) -> Done:
        """Write all jobs in one transaction. Raises: InDoubt, and errors that abort the whole transaction."""
        try:
            if len(batch) == 1:
                return self._write_once(batch, Framing.ALONE)
            try:
                return self._write_once(batch, Framing.NONE)
            except FramesNeeded:
                return self._write_once(batch, Framing.EACH)
        except AllUndone as undone:
            raise undone.error from None

    def has_landed(self, token: str) -> bool:
        """Wait until the transaction with this token has released the lock, and return whether it was committed."""
        try:
            connection = self._connected()
            with connection.begin() as transaction:
                change_log.lock(connection)
                found = change_log.has(connection, token)
                transaction.rollback()
        except BaseException:
            self.close()
            raise
        return found

    def close(self) -> None:
        """Close the connection; the next transaction opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _write_once(self, batch: Sequence[Job], framing: Framing) -> Done:
        outcomes: dict[int, Any] = {}
        token = new_uuid()
        try:
            connection = self._connected()
            with connection.begin() as transaction:
                seq, now = change_log.lock(connection)
                tx = Transaction(connection, self._clock.told(now), framing=framing)
                for run, members in _grouped(batch):
                    outcomes.update(zip(members, run(tx, [batch[index].item for index in members]), strict=True))
                in_order = [outcomes[index] for index in range(len(batch))]
                if tx.is_spoilt:
                    transaction.rollback()
                    return Done(None, in_order)
                done = Done(change_log.commit_of(tx, seq), in_order)
                try:
                    with pipelined(connection):
                        change_log.append(tx, token, done.commit)
                        send_commit(connection)
                    transaction.commit()  # the end of the transaction for SQLAlchemy, if COMMIT has been sent
                except DBAPIError as error:
                    raise InDoubt(token, done, error) from error
        except BaseException:
            self.close()
            raise
        return done


def _grouped(batch: Sequence[Job]) -> Iterable[tuple[BatchedWrite[Any, Any], list[int]]]:
    """Group the jobs of a batch by their ``run``, in order of appearance: ``run`` → indices of its jobs."""
    groups: dict[BatchedWrite[Any, Any], list[int]] = {}
    for index, job in enumerate(batch):
        groups.setdefault(job.run, []).append(index)
    return groups.items()
