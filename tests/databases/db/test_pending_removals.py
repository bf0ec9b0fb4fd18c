# SPDX-License-Identifier: Apache-2.0
from datetime import timedelta

import pytest

from kilonova.db import pending_removals
from kilonova.db.database import Database
from kilonova.db.pending_removals import KEPT
from kilonova.identifiers import new_uuid
from kilonova.model.found_guest import RemovalReason

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)


def test_a_record_that_is_written_again_has_the_latest_reason(database: Database) -> None:
    uuid = new_uuid()
    for reason in (RemovalReason.LEFT, RemovalReason.DELETED):
        database.write(lambda tx, reason=reason: pending_removals.note(tx, "node1", uuid, reason))  # type: ignore[misc]
    database.write(lambda tx: pending_removals.note(tx, "node2", uuid, RemovalReason.LEFT))
    with database.read() as connection:
        found = pending_removals.of(connection, [uuid, new_uuid()])
        assert pending_removals.of(connection, []) == {}
    assert {host: reason for (host, _), (reason, _) in found.items()} == {
        "node1": RemovalReason.DELETED,
        "node2": RemovalReason.LEFT,
    }


def test_a_record_is_kept_for_a_day_and_while_the_guest_exists(database: Database) -> None:
    gone, present = new_uuid(), new_uuid()
    for uuid in (gone, present):
        database.write(lambda tx, uuid=uuid: pending_removals.note(tx, "node1", uuid, RemovalReason.LEFT))  # type: ignore[misc]
    now = database.write(lambda tx: tx.now)
    reported = {"node1": [present], "node2": []}
    with database.read() as connection:
        assert pending_removals.forgettable(connection, reported, now) == []
        old = pending_removals.forgettable(connection, reported, now + KEPT + timedelta(seconds=1))
    assert old == [("node1", gone)]
    database.write(lambda tx: pending_removals.forget(tx, [*old, ("node9", gone)]))
    with database.read() as connection:
        assert set(pending_removals.of(connection, [gone, present])) == {("node1", present)}
