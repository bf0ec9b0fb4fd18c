# SPDX-License-Identifier: Apache-2.0
"""Which control processes are alive, and in which of them the agent of a host runs, where it runs in one at all."""

from collections.abc import Collection
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import tables as t
from kilonova.db.statements import insert_missing
from kilonova.db.transaction import Transaction

#: How long a process counts as alive after its last sign of life, unless it is told otherwise.
LEASE = timedelta(seconds=60)
_A, _P = t.host_agents.c, t.processes.c


def take(tx: Transaction, hosts: Collection[str], process: str) -> None:
    """Note that the agents of ``hosts`` run in ``process`` from now on.

    A process that had one of them has ended, since an agent runs once: it loses its lease, so that its workflows are
    taken up at once.
    """
    before: set[str] = set()
    chosen = list(hosts)
    for start in range(0, len(chosen), 500):
        theirs = sa.select(_A.process).where(_A.host.in_(chosen[start : start + 500]), _A.process != process)
        before |= set(tx.execute(theirs).scalars())
    tx.execute(sa.delete(t.processes).where(_P.uuid.in_(before)))
    for host in hosts:
        if not insert_missing(tx, t.host_agents, {"host": host, "process": process}):
            tx.execute(sa.update(t.host_agents).where(_A.host == host).values(process=process))


def process_of(connection: Connection, host: str) -> str | None:
    """Return the process in which the agent of ``host`` was seen last, or None; it may have ended since."""
    process: str | None = connection.execute(sa.select(_A.process).where(_A.host == host)).scalar()
    return process


def keep_alive(tx: Transaction, process: str, lease: timedelta) -> bool:
    """Note that ``process`` is alive, and forget those that ended long ago. Returns whether it counted as alive."""
    until = tx.now + lease
    was_alive = is_alive(tx, process)
    if not insert_missing(tx, t.processes, {"uuid": process, "lease_until": until}):
        tx.execute(sa.update(t.processes).where(_P.uuid == process).values(lease_until=until))
    tx.execute(sa.delete(t.processes).where(_P.lease_until < tx.now - 10 * lease))
    return was_alive


def renew(tx: Transaction, process: str, lease: timedelta) -> bool:
    """Note that ``process`` is alive, if it still counts as that. Returns whether it does."""
    mine = sa.update(t.processes).where(_P.uuid == process, _P.lease_until > tx.now)
    return bool(tx.execute(mine.values(lease_until=tx.now + lease)).rowcount)


def alive(now: datetime) -> sa.Select[tuple[str]]:
    """Return the query for the processes that have their lease."""
    return sa.select(_P.uuid).where(_P.lease_until > now)


def living(connection: Connection, now: datetime) -> frozenset[str]:
    """Return the processes that have their lease."""
    return frozenset(row.uuid for row in connection.execute(alive(now)))


def is_alive(tx: Transaction, process: str) -> bool:
    """Return whether ``process`` still has its lease."""
    return tx.execute(alive(tx.now).where(_P.uuid == process)).first() is not None
