# SPDX-License-Identifier: Apache-2.0
"""Rows of processes in the database: alive, silent, or aged by a given time."""

from collections.abc import Sequence
from datetime import timedelta

import sqlalchemy as sa

from kilonova.db import host_agents
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.host_agents import Process


def revive(tx: Transaction, host: str) -> None:
    """Register a live process that serves a host."""
    host_agents.register(tx, Process(f"process of {host}"), [host], host_agents.LEASE)


def silence(tx: Transaction, host: str, seconds: float = 3600) -> None:
    """Mark the process that serves a host as silent for ``seconds``."""
    mine = sa.select(t.host_agents.c.process).where(t.host_agents.c.host == host).scalar_subquery()
    then = tx.now - timedelta(seconds=seconds)
    tx.execute(sa.update(t.processes).where(t.processes.c.uuid == mine).values(last_seen_at=then))
    host_agents.mark_silent(tx, tx.now - host_agents.LEASE)


def pass_time(database: Database, passed: timedelta, tables: Sequence[sa.Table] = (t.processes,)) -> None:
    """Move all stored times into the past, because a test cannot set a database server's clock."""

    def job(tx: Transaction) -> None:
        for table in tables:
            keys = list(table.primary_key.columns)
            times = [column for column in table.c if isinstance(column.type, sa.DateTime)]
            for row in tx.execute(sa.select(*keys, *times)).mappings().all():
                older = {column.name: row[column.name] - passed for column in times if row[column.name] is not None}
                mine = sa.and_(*(key == row[key.name] for key in keys))
                tx.execute(sa.update(table).where(mine).values(older))

    database.write(job)
