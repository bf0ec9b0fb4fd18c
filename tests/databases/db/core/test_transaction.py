# SPDX-License-Identifier: Apache-2.0
import pytest
import sqlalchemy as sa

from kilonova.db import resource_classes
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database


def test_a_savepoint_undoes_its_block_alone(database: Database) -> None:
    def write(tx: Transaction) -> None:
        resource_classes.create(tx, "CUSTOM_BEFORE")
        with pytest.raises(sa.exc.IntegrityError), tx.savepoint():
            resource_classes.create(tx, "CUSTOM_INSIDE")
            tx.log("metrics", "CUSTOM_INSIDE", {})
            tx.execute(sa.insert(t.resource_classes), {"name": "VCPU", "created_at": tx.now})
        resource_classes.create(tx, "CUSTOM_AFTER")
        assert not tx.changes

    database.write(write)
    with database.read() as connection:
        found = {word.name for word in resource_classes.list_all(connection) if word.name.startswith("CUSTOM_")}
    assert found == {"CUSTOM_BEFORE", "CUSTOM_AFTER"}
