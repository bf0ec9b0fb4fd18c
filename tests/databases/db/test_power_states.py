# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.db import instances, power_states
from kilonova.db.database import Database
from kilonova.errors import ConcurrentUpdate
from kilonova.model.instance import PowerState, TaskState
from support.stored_servers import read_server, store_server

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)

RUNNING = {"host": "node1", "node": "node1", "power_state": PowerState.RUNNING}


def test_servers_with_a_task_are_left_out_unless_they_are_being_rebooted(database: Database) -> None:
    idle, busy = store_server(database, **RUNNING), store_server(database, **RUNNING, task_state=TaskState.PAUSING)
    rebooting = store_server(database, **RUNNING, task_state=TaskState.REBOOTING)
    store_server(database, host="node2", node="node2")
    with database.read() as connection:
        assert [each.uuid for each in power_states.of_hosts(connection, ["node1", "gone"])] == [
            idle.uuid,
            rebooting.uuid,
        ]
        assert [each.uuid for each in power_states.of_servers(connection, [busy.uuid, idle.uuid])] == [idle.uuid]


def test_a_report_does_not_overwrite_a_later_change(database: Database) -> None:
    same, changed = store_server(database, **RUNNING), store_server(database, **RUNNING)
    with database.read() as connection:
        seen = {each.uuid: each for each in power_states.of_hosts(connection, ["node1"])}
    database.write(lambda tx: instances.change(tx, changed.uuid, name="renamed"))
    power_states.require_unchanged(same, seen[same.uuid])
    with pytest.raises(ConcurrentUpdate):
        power_states.require_unchanged(read_server(database, changed.uuid), seen[changed.uuid])
    reported = [(each, PowerState.SHUTDOWN) for each in seen.values()]
    database.write(lambda tx: power_states.store(tx, reported))
    assert read_server(database, same.uuid).power_state is PowerState.SHUTDOWN
    assert read_server(database, changed.uuid).power_state is PowerState.RUNNING
