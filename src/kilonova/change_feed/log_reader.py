# SPDX-License-Identifier: Apache-2.0
"""Reads batches of events from the change log."""

from itertools import pairwise

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.change_feed.events import Batch, event_of
from kilonova.db.core import tables as t
from kilonova.db.core.change_log import decode_commit
from kilonova.errors import FromNewerRelease

MOST_COMMITS = 200
#: Size of a batch in bytes after which it is not continued; one commit may be larger.
ENOUGH = 256 * 1024
_L = t.change_log.c


def newest(connection: Connection) -> int:
    """Return the number of the last commit; 0 if there is none."""
    return int(connection.execute(sa.select(t.change_counter.c.seq)).scalar() or 0)


def read_batch(connection: Connection, after: int) -> Batch:
    """Return the events after commit ``after``, at most ``MOST_COMMITS`` commits of them.

    The batch says "reload" if a commit after ``after`` is missing, has the format of a newer release, or if ``after``
    is in the future, as after the restoration of a backup.
    """
    last = newest(connection)
    if after == last:
        return Batch(after)
    rows = connection.execute(
        sa.select(_L.seq, _L.created_at, _L.body).where(_L.seq > after).order_by(_L.seq).limit(MOST_COMMITS)
    ).all()
    numbers = [after, *(row.seq for row in rows)]
    if after > last or not rows or any(later != earlier + 1 for earlier, later in pairwise(numbers)):
        return Batch(last, is_reload=True)
    events, reached, size = [], after, 0
    for row in rows:
        try:
            event = event_of(decode_commit(row.seq, row.body), row.created_at)
        except FromNewerRelease:
            return Batch(last, is_reload=True)
        reached = row.seq
        if event["changes"]:
            text = orjson.dumps(event)
            events.append((row.seq, text))
            size += len(text)
            if size >= ENOUGH:
                break
    return Batch(reached, tuple(events))
