# SPDX-License-Identifier: Apache-2.0
"""The change log: what every commit changed, kept as long as a mirror may need to follow; an older one loads anew.

Numbers come from a one-row counter whose lock is held until the commit, so their order is the order of commits. What
came after the oldest checkpoint stays, too, so that every state since then can be made again.
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
# The servers' functions that tell the time when they are called, which is after the wait for the lock.
_TAKE_SEQ_POSTGRESQL = Prepared(
    _NEXT_SEQ.returning(_COUNTER.seq, sa.literal_column("clock_timestamp() AT TIME ZONE 'UTC'"))
)
# MariaDB cannot return anything from an UPDATE, and can from an INSERT that turns into one.
_TAKE_SEQ_MARIADB = Prepared(
    sa.text(
        "INSERT INTO change_counter (id, seq) VALUES (1, 1) ON DUPLICATE KEY UPDATE seq = seq + 1"
        " RETURNING seq, SYSDATE(6)"
    )
)
_ROW = Prepared(sa.insert(t.change_log).values({column.name: sa.bindparam(column.name) for column in t.change_log.c}))


def lock(connection: Connection) -> tuple[int | None, datetime | None]:
    """Keep every other process from writing until the end of this transaction; return its seq, and the server's time.

    SQLite has locked the file already, has no time of its own, and takes a seq only for what mirrors must know.
    """
    if connection.dialect.name == "sqlite":
        return None, None
    take = _TAKE_SEQ_POSTGRESQL if connection.dialect.name == "postgresql" else _TAKE_SEQ_MARIADB
    ((seq, now),) = take.rows(connection)
    return int(seq), now


def time_of(connection: Connection) -> datetime:
    """Return the present of a server."""
    clock = "clock_timestamp() AT TIME ZONE 'UTC'" if connection.dialect.name == "postgresql" else "UTC_TIMESTAMP(6)"
    now: datetime = connection.execute(sa.text(f"SELECT {clock}")).scalar_one()
    return now


def append(tx: Transaction, token: str, seq: int | None) -> Commit | None:
    """Write the row of a transaction. On a server, where a commit may go unanswered, every one leaves one.

    ``seq``: what :func:`lock` took. ``token``: finds the row again.
    """
    if seq is None and not tx.changes:
        return None
    latest: dict[tuple[str, str], Change] = {}
    for change in tx.changes:
        latest.pop((change.kind, change.key), None)
        latest[change.kind, change.key] = change
    if seq is None:
        seq = int(_TAKE_SEQ_RETURNING.rows(tx.connection)[0][0])
    commit = Commit(seq, tuple(latest.values()), tuple(tx.claims))
    body = changes.encode(commit.changes, commit.claims)
    _ROW.run(tx.connection, seq=seq, token=token, created_at=tx.now, body=body)
    return commit


def has(connection: Connection, token: str) -> bool:
    """Tell whether a transaction left its row."""
    return connection.execute(sa.select(t.change_log.c.seq).where(t.change_log.c.token == token)).first() is not None


def trim(tx: Transaction, kept: timedelta) -> int:
    """Drop the rows older than ``kept`` that no checkpoint needs. Returns how many there were."""
    log = t.change_log.c
    oldest = tx.execute(sa.select(sa.func.min(t.checkpoints.c.seq))).scalar()
    old = sa.delete(t.change_log).where(log.created_at < tx.now - kept)
    return tx.execute(old if oldest is None else old.where(log.seq <= oldest)).rowcount


def between(connection: Connection, after: int, until: int | None = None) -> tuple[Commit, ...] | None:
    """Return the commits after one seq up to another, or to the newest; None when the log does not have all of them."""
    log = t.change_log.c
    statement = sa.select(log.seq, log.body).where(log.seq > after).order_by(log.seq)
    if until is not None:
        statement = statement.where(log.seq <= until)
    commits = tuple(decode_commit(seq, body) for seq, body in connection.execute(statement))
    if until is None:
        until = commits[-1].seq if commits else after
    return commits if len(commits) == until - after else None


def decode_commit(seq: int, body: bytes) -> Commit:
    """Read a row. Raises: FromNewerRelease."""
    return Commit(seq, *changes.decode(body, f"Commit {seq} of the change log"))
