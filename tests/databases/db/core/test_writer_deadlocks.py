# SPDX-License-Identifier: Apache-2.0
"""Deadlocks with a client that writes without the lock of all writers: MariaDB rolls one transaction back."""

import threading
import time
from collections.abc import Callable

import pytest
import sqlalchemy as sa

from kilonova.clock import utc_now
from kilonova.db import resource_classes
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.errors import Conflict


@pytest.mark.parametrize("kind", ["mariadb"], indirect=True)
def test_a_transaction_that_a_deadlock_rolled_back_is_retried(database: Database) -> None:
    """The server rolls back the whole transaction of the victim: all its jobs, and their savepoints."""
    tries: list[int] = []
    other = database.engine.connect()
    other.execute(sa.update(t.traits).where(t.traits.c.id < 200).values(created_at=utc_now()))  # the heavier one wins
    other.execute(sa.update(t.resource_classes).where(t.resource_classes.c.id == 2).values(created_at=utc_now()))

    def victim(tx: Transaction) -> None:
        tries.append(1)
        touched = sa.update(t.resource_classes).values(created_at=tx.now)
        tx.execute(touched.where(t.resource_classes.c.id == 1))
        if len(tries) == 1:

            def meet() -> None:
                other.execute(touched.where(t.resource_classes.c.id == 1))
                other.rollback()

            threading.Thread(target=meet).start()
            time.sleep(1)
        tx.execute(touched.where(t.resource_classes.c.id == 2))

    def refused(_tx: Transaction) -> None:
        raise Conflict("no")

    entered, go_on = threading.Event(), threading.Event()
    held = database.submit(lambda _: (entered.set(), go_on.wait(20)))
    assert entered.wait(20)
    futures = [
        database.submit(job) for job in (refused, resource_class("CUSTOM_A"), victim, resource_class("CUSTOM_B"))
    ]
    go_on.set()
    held.result(timeout=20)
    assert isinstance(futures[0].exception(timeout=30), Conflict)
    for future in futures[1:]:
        future.result(timeout=30)
    other.close()
    with database.read() as connection:
        names = set(connection.execute(sa.select(t.resource_classes.c.name)).scalars())
    assert {"CUSTOM_A", "CUSTOM_B"} <= names
    database.write(resource_class("CUSTOM_C"))
    assert len(tries) > 1


def resource_class(name: str) -> Callable[[Transaction], None]:
    return lambda tx: resource_classes.create(tx, name)
