# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.db import server_groups
from kilonova.db.database import Database
from kilonova.errors import NotFound, OverQuota
from kilonova.identifiers import new_uuid
from kilonova.model.server_group import ServerGroup

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)


def create(database: Database, project: str = "p", user: str = "u", **limits: int) -> ServerGroup:
    group = ServerGroup(new_uuid(), "group", "affinity", project, user)
    return database.write(lambda tx: server_groups.create(tx, group, **limits))


def test_limits_of_a_project_and_of_its_user_are_checked_apart(database: Database) -> None:
    create(database, limit=2, limit_of_user=1)
    with pytest.raises(OverQuota):
        create(database, limit=2, limit_of_user=1)
    create(database, user="another", limit=2, limit_of_user=1)
    with pytest.raises(OverQuota):
        create(database, user="third", limit=2)
    create(database, project="elsewhere", limit=1)
    with database.read() as connection:
        assert server_groups.count(connection, "p") == 2
        assert server_groups.count(connection, "p", "u") == 1
        assert len(server_groups.list_for(connection, None)) == 3


def test_a_deleted_group_is_not_found(database: Database) -> None:
    group = create(database)
    database.write(lambda tx: server_groups.delete(tx, group.uuid))
    with database.read() as connection, pytest.raises(NotFound, match=group.uuid):
        server_groups.get(connection, group.uuid)
    with pytest.raises(NotFound):
        database.write(lambda tx: server_groups.delete(tx, group.uuid))
