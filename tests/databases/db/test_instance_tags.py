# SPDX-License-Identifier: Apache-2.0
import pytest
import sqlalchemy as sa

from kilonova.db import instance_tags, instances
from kilonova.db.database import Database
from kilonova.errors import NotFound
from kilonova.identifiers import new_uuid
from support.stored_servers import read_server, store_server


def test_tags_are_replaced_and_added_and_the_server_counts_as_changed(database: Database) -> None:
    server, other = store_server(database, tags=("old",)), store_server(database, tags=("kept",))
    database.write(lambda tx: instance_tags.replace(tx, server.uuid, ["a", "b"]))
    assert read_server(database, server.uuid).tags == ("a", "b")
    assert read_server(database, server.uuid).updated_at is not None
    database.write(lambda tx: instance_tags.add(tx, server.uuid, "c"))
    assert read_server(database, server.uuid).tags == ("a", "b", "c")
    with pytest.raises(sa.exc.IntegrityError):
        database.write(lambda tx: instance_tags.add(tx, server.uuid, "c"))
    database.write(lambda tx: instance_tags.replace(tx, server.uuid, []))
    assert read_server(database, server.uuid).tags == ()
    assert read_server(database, other.uuid) == other


@pytest.mark.parametrize("tags", [[], ["a"]])
def test_an_unknown_server_gets_no_tags(database: Database, tags: list[str]) -> None:
    with pytest.raises(NotFound):
        database.write(lambda tx: instance_tags.replace(tx, new_uuid(), tags))
    with pytest.raises(NotFound):
        database.write(lambda tx: instance_tags.add(tx, new_uuid(), "a"))


def test_a_deleted_server_keeps_the_tags_that_it_had(database: Database) -> None:
    server = store_server(database, tags=("kept",))
    database.write(lambda tx: instances.mark_deleted(tx, server.uuid))
    with pytest.raises(NotFound):
        database.write(lambda tx: instance_tags.replace(tx, server.uuid, ["new"]))
    with pytest.raises(NotFound):
        database.write(lambda tx: instance_tags.add(tx, server.uuid, "new"))
    with database.read() as connection:
        found = instances.find_any(connection, server.uuid)
    assert found is not None
    assert found.tags == ("kept",)
