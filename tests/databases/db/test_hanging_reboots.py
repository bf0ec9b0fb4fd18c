# SPDX-License-Identifier: Apache-2.0
from datetime import timedelta

import pytest

from kilonova.db import hanging_reboots, instances
from kilonova.db.database import Database
from kilonova.errors import ConcurrentUpdate
from kilonova.model.instance import TaskState
from support.stored_servers import read_server, store_server

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)


def test_only_soft_reboots_that_have_not_changed_for_long_hang(database: Database) -> None:
    servers = {task: store_server(database) for task in (TaskState.REBOOTING, TaskState.REBOOTING_HARD, None)}
    for task, server in servers.items():
        database.write(lambda tx, task=task, uuid=server.uuid: instances.change(tx, uuid, task_state=task))  # type: ignore[misc]
    soft = read_server(database, servers[TaskState.REBOOTING].uuid)
    assert soft.updated_at is not None
    with database.read() as connection:
        later = soft.updated_at + timedelta(minutes=1)
        assert [each.uuid for each in hanging_reboots.since(connection, later, 10)] == [soft.uuid]
        assert hanging_reboots.since(connection, later, 0) == ()
        assert hanging_reboots.since(connection, soft.updated_at, 10) == ()
    hanging_reboots.require_unchanged(soft, soft)
    with pytest.raises(ConcurrentUpdate):
        hanging_reboots.require_unchanged(read_server(database, servers[None].uuid), soft)
