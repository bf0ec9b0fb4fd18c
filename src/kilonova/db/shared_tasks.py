# SPDX-License-Identifier: Apache-2.0
"""Periodic tasks that one control process runs for the whole cloud, with the result of the last complete run.

A process owns a run while it calls :func:`keep` often enough; the run of a dead process is free for any other process.
"""

from datetime import datetime, timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.statements import insert_missing
from kilonova.db.core.transaction import Transaction

_T = t.shared_tasks.c


class Finished(NamedTuple):
    """The last complete run of a task: its end, and its result."""

    at: datetime
    result: Any


def begin(tx: Transaction, name: str, owner: str, *, every: timedelta, lease: timedelta) -> bool:
    """Make a process the owner of the next run; return False if the run is not due, or another process owns it.

    ``every``: time between the end of a run and the next one. ``lease``: time without :func:`keep` after which a run
    that was begun is free.
    """
    insert_missing(tx, t.shared_tasks, {"name": name})
    is_free = sa.or_(_T.owner.is_(None), _T.seen_at < tx.now - lease)
    is_due = sa.or_(_T.finished_at.is_(None), _T.finished_at <= tx.now - every)
    taken = sa.update(t.shared_tasks).where(_T.name == name, is_free, is_due)
    return tx.execute(taken.values(owner=owner, seen_at=tx.now)).rowcount == 1


def keep(tx: Transaction, name: str, owner: str) -> bool:
    """Renew the lease of a run; return False if another process owns the run meanwhile."""
    kept = sa.update(t.shared_tasks).where(_T.name == name, _T.owner == owner).values(seen_at=tx.now)
    return tx.execute(kept).rowcount == 1


def finish(tx: Transaction, name: str, owner: str, result: Any) -> bool:
    """Store the result of a run and end the run; return False if another process owns the run meanwhile."""
    values = {"owner": None, "finished_at": tx.now, "result": result}
    return tx.execute(sa.update(t.shared_tasks).where(_T.name == name, _T.owner == owner).values(values)).rowcount == 1


def last(connection: Connection, name: str) -> Finished | None:
    """Return the last complete run of a task; None before its end."""
    wanted = sa.select(_T.finished_at, _T.result).where(_T.name == name, _T.finished_at.is_not(None))
    row = connection.execute(wanted).first()
    return None if row is None else Finished(row.finished_at, row.result)
