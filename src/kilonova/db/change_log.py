# SPDX-License-Identifier: Apache-2.0
"""The change log: what every commit changed, kept as long as a mirror may need to follow; an older one loads anew.

What came after the oldest checkpoint stays, too, so that every state since then can be made again.
"""

from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import tables as t
from kilonova.db.database import Commit, Transaction, decode_commit


def trim(tx: Transaction, kept: timedelta) -> int:
    """Drop the rows older than ``kept`` that no checkpoint needs. Returns how many there were."""
    log = t.change_log.c
    oldest = tx.execute(sa.select(sa.func.min(t.checkpoints.c.seq))).scalar()
    old = sa.delete(t.change_log).where(log.created_at < tx.now - kept)
    return tx.execute(old if oldest is None else old.where(log.seq <= oldest)).rowcount


def between(connection: Connection, after: int, until: int) -> tuple[Commit, ...] | None:
    """Return the commits after one seq up to another; None when the log does not have all of them."""
    log = t.change_log.c
    statement = sa.select(log.seq, log.body).where(log.seq > after, log.seq <= until).order_by(log.seq)
    commits = tuple(decode_commit(seq, body) for seq, body in connection.execute(statement))
    return commits if len(commits) == until - after else None
