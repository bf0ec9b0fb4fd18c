# SPDX-License-Identifier: Apache-2.0
from datetime import datetime, timedelta

import pytest

from kilonova.db import usage_audits
from kilonova.db.database import Database
from kilonova.db.usage_audits import Progress
from kilonova.model.audit_periods import Period
from support.stored_servers import store_server

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)

BEGIN = datetime.fromisoformat("2026-02-01")
PERIOD = Period(BEGIN, BEGIN + timedelta(days=28))
DAY = timedelta(days=1)


def progress(database: Database) -> Progress | None:
    with database.read() as connection:
        return usage_audits.find(connection, PERIOD)


def test_servers_that_ran_in_the_period_are_taken_once_each(database: Database) -> None:
    ran = [
        store_server(database, launched_at=BEGIN - DAY),
        store_server(database, launched_at=BEGIN - DAY, terminated_at=BEGIN + DAY),
        store_server(database, launched_at=BEGIN + DAY),
    ]
    store_server(database)
    store_server(database, launched_at=PERIOD.end)
    store_server(database, launched_at=BEGIN - DAY, terminated_at=BEGIN)
    assert progress(database) is None
    assert database.write(lambda tx: usage_audits.begin(tx, PERIOD))
    assert database.write(lambda tx: usage_audits.begin(tx, PERIOD)), "another process joins in"
    taken = [database.write(lambda tx: usage_audits.take(tx, PERIOD, 2)) for _ in range(2)]
    assert [[each.uuid for each in some] for some in taken] == [[ran[0].uuid, ran[1].uuid], [ran[2].uuid]]
    assert progress(database) == Progress(3, is_over=False)
    for _ in range(2):
        assert database.write(lambda tx: usage_audits.take(tx, PERIOD, 2)) == ()
    assert progress(database) == Progress(3, is_over=True)
    assert not database.write(lambda tx: usage_audits.begin(tx, PERIOD))
