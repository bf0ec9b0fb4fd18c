# SPDX-License-Identifier: Apache-2.0
"""The change log: one row for each commit, with the changes of that commit.

The seq of a row comes from a one-row counter that stays locked until the commit, so seqs are in commit order. A mirror
that needs a row which has been deleted reloads its whole state. Rows newer than the oldest checkpoint are never
deleted, so that every state since that checkpoint can be rebuilt.
"""

from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.change_log import changes
from kilonova.db.change_log.changes import Change, Commit
from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.transaction import Transaction

_COUNTER = t.change_counter.c
_TAKE_SEQ = sa.update(t.change_counter).where(_COUNTER.id == 1)
_NEXT_SEQ = _TAKE_SEQ.values(seq=_COUNTER.seq + 1)
_TAKE_SEQ_RETURNING = Prepared(_NEXT_SEQ.returning(_COUNTER.seq))
# clock_timestamp() and SYSDATE() return the time of their evaluation, which is after the wait for the lock; now() would
# return the start of the transaction.
_TAKE_SEQ_POSTGRESQL = Prepared(
    _NEXT_SEQ.returning(_COUNTER.seq, sa.literal_column("clock_timestamp() AT TIME ZONE 'UTC'"))
)
# MariaDB has no UPDATE … RETURNING, but its upsert can have a RETURNING clause.
_TAKE_SEQ_MARIADB = Prepared(
    sa.text(
        "INSERT INTO change_counter (id, seq) VALUES (1, 1) ON DUPLICATE KEY UPDATE seq = seq + 1"
        " RETURNING seq, SYSDATE(6)"
    )
)
_ROW = Prepared(sa.insert(t.change_log).values({column.name: sa.bindparam(column.name) for column in t.change_log.c}))


def lock(connection: Connection) -> tuple[int | None, datetime | None]:
    """Lock the change counter until this transaction ends; return the counter's new seq and the server's time.

    No other process writes while the counter is locked. Both results are None on SQLite: BEGIN IMMEDIATE has locked the
    file already, SQLite has no clock of its own, and on SQLite only commits with changes for the mirrors get a seq.
    """
    if connection.dialect.name == "sqlite":
        return None, None
    take = _TAKE_SEQ_POSTGRESQL if connection.dialect.name == "postgresql" else _TAKE_SEQ_MARIADB
    ((seq, now),) = take.rows(connection)
    return int(seq), now


def time_of(connection: Connection) -> datetime:
    """Return the current time of a database server, in UTC without zone."""
    clock = "clock_timestamp() AT TIME ZONE 'UTC'" if connection.dialect.name == "postgresql" else "UTC_TIMESTAMP(6)"
    now: datetime = connection.execute(sa.text(f"SELECT {clock}")).scalar_one()
    return now


def commit_of(tx: Transaction, seq: int | None) -> Commit | None:
    """Return the commit of a transaction; None if it has no change-log row.

    On a database server every transaction has a row: if COMMIT gets no answer, the row proves that it succeeded.
    On SQLite only a transaction with changes has a row. ``seq``: the number that :func:`lock` returned.
    """
    if seq is None and not tx.changes:
        return None
    latest: dict[tuple[str, str], Change] = {}
    for change in tx.changes:
        latest.pop((change.kind, change.key), None)
        latest[change.kind, change.key] = change
    if seq is None:
        seq = int(_TAKE_SEQ_RETURNING.rows(tx.connection)[0][0])
    return Commit(seq, tuple(latest.values()), tuple(tx.claims))


def append(tx: Transaction, token: str, commit: Commit | None) -> None:
    """Write the change-log row of a transaction, if it has one. ``token``: the key of the row for :func:`has`."""
    if commit is not None:
        body = changes.encode(commit.changes, commit.claims)
        _ROW.run(tx.connection, seq=commit.seq, token=token, created_at=tx.now, body=body)


def has(connection: Connection, token: str) -> bool:
    """Return whether the change log has the row of the transaction with this token."""
    return connection.execute(sa.select(t.change_log.c.seq).where(t.change_log.c.token == token)).first() is not None


def trim(tx: Transaction, kept: timedelta) -> int:
    """Delete the rows that are older than ``kept`` and not needed by a checkpoint; return their number."""
    log = t.change_log.c
    oldest = tx.execute(sa.select(sa.func.min(t.checkpoints.c.seq))).scalar()
    old = sa.delete(t.change_log).where(log.created_at < tx.now - kept)
    return tx.execute(old if oldest is None else old.where(log.seq <= oldest)).rowcount


def between(connection: Connection, after: int, until: int | None = None) -> tuple[Commit, ...] | None:
    """Return the commits after seq ``after`` up to ``until``, by default the newest; None if one of them is missing."""
    log = t.change_log.c
    statement = sa.select(log.seq, log.body).where(log.seq > after).order_by(log.seq)
    if until is not None:
        statement = statement.where(log.seq <= until)
    commits = tuple(decode_commit(seq, body) for seq, body in connection.execute(statement))
    if until is None:
        until = commits[-1].seq if commits else after
    return commits if len(commits) == until - after else None


def some_after(connection: Connection, seq: int, most: int) -> tuple[Commit, ...]:
    """Return the next commits after ``seq`` in order, at most ``most``. If some are missing, the others are returned.

    Raises: FromNewerRelease.
    """
    log = t.change_log.c
    statement = sa.select(log.seq, log.body).where(log.seq > seq).order_by(log.seq).limit(most)
    return tuple(decode_commit(number, body) for number, body in connection.execute(statement))


def decode_commit(seq: int, body: bytes) -> Commit:
    """Decode a row of the change log. Raises: FromNewerRelease."""
    return Commit(seq, *changes.decode(body, f"Commit {seq} of the change log"))
