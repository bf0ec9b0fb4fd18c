# SPDX-License-Identifier: Apache-2.0
"""A write of one provider finds it, and what hangs on it, by indexes, however many providers there are."""

from typing import Any

import sqlalchemy as sa

from kilonova.db import providers
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.providers import NewProvider
from kilonova.identifiers import new_uuid


def test_a_delete_reads_no_whole_table_where_no_provider_has_a_parent(sqlite: Database) -> None:
    wanted = [NewProvider(new_uuid(), f"p{number}") for number in range(200)]
    sqlite.write(lambda tx: providers.create_all(tx, wanted))
    sqlite.write(lambda tx: tx.execute(sa.text("ANALYZE")))
    run: list[str] = []

    def steps(tx: Transaction) -> list[Any]:
        driver: Any = tx.connection.connection.dbapi_connection
        driver.set_trace_callback(run.append)
        providers.delete(tx, wanted[0].uuid)
        driver.set_trace_callback(None)
        return [step[3] for text in run for step in driver.execute(f"EXPLAIN QUERY PLAN {text}")]

    found = sqlite.write(steps)
    assert any("SEARCH child" in step for step in found), found
    assert not [step for step in found if step.startswith("SCAN")], found
