# SPDX-License-Identifier: Apache-2.0
"""Progress of usage audits (``instance.exists`` notifications): one row per period, shared by all processes.

A process takes the next servers and advances the row in one transaction, so each server gets one notification.
"""

from datetime import timedelta
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db.core import tables as t
from kilonova.db.core.statements import insert_missing
from kilonova.db.core.transaction import Transaction
from kilonova.db.instance_rows import ROWS, complete
from kilonova.model.audit_periods import Period
from kilonova.model.instance import Instance

_A, _I = t.usage_audits.c, t.instances.c
_KEPT = timedelta(days=400)


class Progress(NamedTuple):
    """Progress of an audit: the number of notifications sent, and whether the audit is complete."""

    servers: int
    is_over: bool


def find(connection: Connection, period: Period) -> Progress | None:
    """Return the progress of the audit of a period, or None if it has not started or was deleted."""
    mine = _A.period_beginning == period.begin, _A.period_ending == period.end
    row = connection.execute(sa.select(_A.servers, _A.finished_at).where(*mine)).first()
    return None if row is None else Progress(row.servers, row.finished_at is not None)


def begin(tx: Transaction, period: Period) -> bool:
    """Start the audit of a period unless it has started. Returns whether it is incomplete."""
    insert_missing(
        tx,
        t.usage_audits,
        {"period_beginning": period.begin, "period_ending": period.end, "after_id": 0, "servers": 0},
    )
    tx.execute(sa.delete(t.usage_audits).where(_A.period_ending < tx.now - _KEPT))
    over = sa.select(_A.finished_at).where(_A.period_beginning == period.begin, _A.period_ending == period.end)
    return tx.execute(over).scalar_one_or_none() is None


def take(tx: Transaction, period: Period, limit: int) -> tuple[Instance, ...]:
    """Return the next servers of a period to send notifications for; an empty result completes the audit.

    Servers that were launched before the end of the period and not terminated before its start are included.
    """
    mine = _A.period_beginning == period.begin, _A.period_ending == period.end
    after_id = tx.execute(sa.select(_A.after_id).where(*mine, _A.finished_at.is_(None))).scalar_one_or_none()
    if after_id is None:
        return ()
    ran = _I.launched_at < period.end, sa.or_(_I.terminated_at.is_(None), _I.terminated_at > period.begin)
    wanted = ROWS.where(_I.id > after_id, *ran).order_by(_I.id).limit(limit)
    found = complete(tx.connection, tx.execute(wanted).all())
    values = {"after_id": found[-1].id, "servers": _A.servers + len(found)} if found else {"finished_at": tx.now}
    tx.execute(sa.update(t.usage_audits).where(*mine).values(values))
    return found
