# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.db import instances
from kilonova.db.change_log.changes import Commit
from kilonova.db.database import Database
from kilonova.errors import Conflict, NotFound, UnexpectedTaskState
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


def test_a_task_is_shown_only_after_an_expected_one(database: Database) -> None:
    before, after = (TaskState.SCHEDULING, TaskState.NETWORKING, TaskState.SPAWNING), TaskState.SPAWNING
    uuids = [store_server(database, task_state=TaskState.NETWORKING).uuid for _ in range(3)]
    commits: list[Commit] = []
    database.on_commit(commits.append)
    database.write(lambda tx: instances.show_tasks(tx, uuids, before, after))
    assert {read_server(database, uuid).task_state for uuid in uuids} == {after}
    assert not any(commit.changes for commit in commits)
    deleting = store_server(database, task_state=TaskState.DELETING).uuid
    with pytest.raises(UnexpectedTaskState):
        database.write(lambda tx: instances.show_tasks(tx, [uuids[0], deleting], before, TaskState.NETWORKING))
    with pytest.raises(NotFound):
        database.write(lambda tx: instances.show_tasks(tx, [uuids[0], "gone"], before, TaskState.NETWORKING))
    assert read_server(database, uuids[0]).task_state is after


def test_a_shown_task_that_counts_as_input_and_output_is_logged_for_the_mirrors(database: Database) -> None:
    uuid = store_server(database, task_state=TaskState.RESIZE_PREP).uuid
    commits: list[Commit] = []
    database.on_commit(commits.append)
    tasks = (TaskState.RESIZE_PREP, TaskState.RESIZE_MIGRATED)
    database.write(lambda tx: instances.show_tasks(tx, [uuid], tasks, TaskState.RESIZE_MIGRATED))
    assert [change.key for commit in commits for change in commit.changes] == [uuid]
