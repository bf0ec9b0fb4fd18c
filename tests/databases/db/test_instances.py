# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.db import instances
from kilonova.db.database import Database
from kilonova.errors import Conflict
from kilonova.model.instance import TaskState
from support.stored_servers import read_server, store_server


def test_states_are_changed_only_from_the_expected_ones(database: Database) -> None:
    uuid = store_server(database, task_state=TaskState.REBOOTING).uuid
    database.write(lambda tx: instances.change(tx, uuid, expected_tasks={TaskState.REBOOTING}, task_state=None))
    with pytest.raises(Conflict):
        database.write(lambda tx: instances.change(tx, uuid, expected_tasks={TaskState.REBOOTING}, task_state=None))
    database.write(lambda tx: instances.change(tx, uuid, expected_tasks={None}, task_state=None))


def test_progress_is_stored_only_during_the_given_tasks(database: Database) -> None:
    uuid = store_server(database, task_state=TaskState.MIGRATING).uuid
    database.write(lambda tx: instances.set_progress(tx, uuid, {TaskState.MIGRATING}, 40))
    database.write(lambda tx: instances.set_progress(tx, uuid, {TaskState.REBUILDING}, 70))
    assert read_server(database, uuid).progress == 40
