# SPDX-License-Identifier: Apache-2.0
import sqlalchemy as sa

from kilonova.db import resource_classes
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database


def test_a_failing_job_takes_nothing_along_and_leaves_nothing(database: Database) -> None:
    def twice(tx: Transaction) -> None:
        resource_classes.create(tx, "CUSTOM_ONE")
        tx.execute(sa.insert(t.resource_classes), {"name": "CUSTOM_ONE", "created_at": tx.now})

    class_futures = [database.submit(lambda tx, n=n: resource_classes.create(tx, f"CUSTOM_{n}")) for n in range(5)]
    broken = database.submit(twice)
    later = database.submit(lambda tx: resource_classes.create(tx, "CUSTOM_LATER"))
    assert isinstance(broken.exception(), sa.exc.IntegrityError)
    for future in (*class_futures, later):
        future.result()
    with database.read() as connection:
        found = {word.name for word in resource_classes.list_all(connection)}
    assert "CUSTOM_ONE" not in found
    assert {"CUSTOM_0", "CUSTOM_4", "CUSTOM_LATER"} <= found
