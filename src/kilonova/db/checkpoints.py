# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: the whole content of a mirror as of one commit, stored in parts that each fit into one statement.

A checkpoint is complete as soon as it has a ``seq``. An incomplete checkpoint is not read, but for some time it
prevents the start of another checkpoint.
"""

import zlib
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.change_log import changes as codec
from kilonova.db.change_log.changes import Change
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.records import dataclass

#: Time after which an incomplete checkpoint is ignored, because the process that started it must have stopped.
GIVEN_UP = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    id: int
    seq: int


def is_due(connection: Connection, now: datetime, *, every: timedelta, commits: int) -> bool:
    """Return whether a checkpoint is due: the newest is ``every`` old, or ``commits`` commits have followed it."""
    table = t.checkpoints.c
    newest = connection.execute(sa.select(table.created_at, table.seq).order_by(table.id.desc()).limit(1)).first()
    if newest is None:
        return True
    if newest.seq is None:
        return bool(now - newest.created_at >= GIVEN_UP)
    seq = connection.execute(sa.select(t.change_counter.c.seq)).scalar_one()
    return bool(now - newest.created_at >= every or seq - newest.seq >= commits)


def begin(tx: Transaction, *, every: timedelta, commits: int) -> int | None:
    """Start a checkpoint and return its id; None if no checkpoint is due."""
    if not is_due(tx.connection, tx.now, every=every, commits=commits):
        return None
    table = t.checkpoints.c
    tx.execute(sa.insert(t.checkpoints), {"created_at": tx.now})
    # The newest row is the inserted one, since only one transaction writes at a time.
    return int(tx.execute(sa.select(sa.func.max(table.id))).scalar_one())


def encode(changes: Sequence[Change]) -> bytes:
    """Return the stored form of a part."""
    return zlib.compress(codec.encode(changes), 1)


def decode(part: bytes) -> Iterator[Change]:
    """Yield the changes of a stored part. Raises: FromNewerRelease."""
    yield from codec.decode(zlib.decompress(part), "A checkpoint")[0]


def add_part(tx: Transaction, checkpoint_id: int, part: int, body: bytes) -> None:
    """Store one part of a checkpoint."""
    tx.execute(sa.insert(t.checkpoint_parts), {"checkpoint_id": checkpoint_id, "part": part, "body": body})


def complete(tx: Transaction, checkpoint_id: int, seq: int, *, kept: int) -> None:
    """Mark a checkpoint as complete, and delete all earlier ones except the newest ``kept`` complete ones."""
    table = t.checkpoints.c
    tx.execute(sa.update(t.checkpoints).where(table.id == checkpoint_id).values(seq=seq))
    newest = tx.execute(sa.select(table.id).where(table.seq.is_not(None)).order_by(table.id.desc()).limit(kept))
    kept_ids = list(newest.scalars())
    old = tx.execute(sa.select(table.id).where(table.id < checkpoint_id, table.id.not_in(kept_ids))).scalars()
    drop(tx, list(old))


def drop(tx: Transaction, ids: Sequence[int]) -> None:
    """Delete checkpoints and their parts; no error if absent."""
    tx.execute(sa.delete(t.checkpoint_parts).where(t.checkpoint_parts.c.checkpoint_id.in_(ids)))
    tx.execute(sa.delete(t.checkpoints).where(t.checkpoints.c.id.in_(ids)))


def find(connection: Connection, seq: int) -> Checkpoint | None:
    """Return the newest complete checkpoint at or before commit ``seq``, or None."""
    table = t.checkpoints.c
    statement = sa.select(table.id, table.seq).where(table.seq <= seq).order_by(table.seq.desc()).limit(1)
    row = connection.execute(statement).first()
    return None if row is None else Checkpoint(row.id, row.seq)


def oldest(connection: Connection) -> int | None:
    """Return the commit of the oldest complete checkpoint, or None if there is no checkpoint."""
    found: int | None = connection.execute(sa.select(sa.func.min(t.checkpoints.c.seq))).scalar()
    return found


def read(connection: Connection, checkpoint: Checkpoint) -> Iterator[Change]:
    """Yield the changes of a checkpoint in the order in which they were written."""
    table = t.checkpoint_parts.c
    statement = sa.select(table.body).where(table.checkpoint_id == checkpoint.id).order_by(table.part)
    for body in connection.execute(statement).scalars():
        yield from decode(body)
