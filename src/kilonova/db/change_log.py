# SPDX-License-Identifier: Apache-2.0
"""The change log: what every commit changed, kept as long as a mirror may need to follow; an older one loads anew."""

from datetime import timedelta

import sqlalchemy as sa

from kilonova.db import tables as t
from kilonova.db.database import Transaction


def trim(tx: Transaction, kept: timedelta) -> int:
    """Drop the rows older than ``kept``. Returns how many there were."""
    return tx.execute(sa.delete(t.change_log).where(t.change_log.c.created_at < tx.now - kept)).rowcount
