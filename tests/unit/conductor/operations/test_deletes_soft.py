# SPDX-License-Identifier: Apache-2.0
import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from kilonova.db import instance_actions, soft_deletes
from kilonova.model.instance import PowerState, VmState
from kilonova.model.quota import Usage
from support.cell import Cell, NewCell, Running, host, new_cell
from support.soft_deletes import fail, soft_delete, states, used


@pytest.mark.parametrize("again", [Cell.delete, lambda cell, uuid: cell.delete(uuid, soft=True)])
def test_a_second_delete_is_passed_over(running: Running, again: Callable[[Cell, str], None]) -> None:
    cell, uuid = running
    cell.delete(uuid, soft=True)
    again(cell, uuid)
    cell.bus.run()
    assert cell.check() == {uuid: VmState.SOFT_DELETED}
    with cell.database.read() as connection:
        actions = instance_actions.list_page(connection, instance_actions.ActionQuery(uuid))
    assert [action.action for action in actions] == ["delete", "create"]


def test_a_soft_delete_of_a_soft_deleted_server_begins_its_time_anew(running: Running) -> None:
    cell, uuid = running
    soft_delete(cell, uuid)
    first = cell.instance(uuid).deleted_at
    soft_delete(cell, uuid)
    second = cell.instance(uuid).deleted_at
    assert first is not None
    assert second is not None
    assert second > first
    assert used(cell) == Usage()
    assert cell.check() == {uuid: VmState.SOFT_DELETED}


@pytest.mark.parametrize("moment", ["running", "soft-deleting", "soft-deleted", "restoring"])
def test_a_forced_delete_deletes_for_good(running: Running, moment: str) -> None:
    cell, uuid = running
    if moment != "running":
        cell.delete(uuid, soft=True)
    if moment in {"soft-deleted", "restoring"}:
        cell.bus.run()
    if moment == "restoring":
        cell.restore(uuid)
    cell.force_delete(uuid)
    cell.work_off()
    assert cell.check() == {}
    assert used(cell) == Usage()


# --- reclaim ----------------------------------------------------------------------------------------------------------


def test_reclaim_is_strictly_after_the_interval(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    cell, uuid = running
    soft_delete(cell, uuid)
    deleted_at = cell.instance(uuid).deleted_at
    assert deleted_at is not None
    with cell.database.read() as connection:
        assert soft_deletes.due(connection, deleted_at, 1) == (), "exactly as old is not older"
        assert len(soft_deletes.due(connection, deleted_at + timedelta(microseconds=1), 1)) == 1
    age = (cell.database.clock.now() - deleted_at).total_seconds()
    assert cell.reclaim(age + 5) == 0
    assert states(cell.instance(uuid)) == (VmState.SOFT_DELETED, None, PowerState.SHUTDOWN)
    with caplog.at_level(logging.INFO):
        assert cell.reclaim(age) == 1
        assert cell.reclaim(age) == 0, "it is being deleted already"
        cell.bus.run()
    assert cell.check() == {}
    words = [record.getMessage() for record in caplog.records if record.getMessage().startswith(f"Server {uuid}")]
    since = f"{deleted_at:%Y-%m-%dT%H:%M:%SZ}"
    assert words == [
        f"Server {uuid} reclaimed: it has been soft-deleted since {since} [req-delete]",
        f"Server {uuid} deleted: host node1 [req-delete]",
    ]
    with cell.database.read() as connection:
        events = instance_actions.events(connection, uuid, "req-delete")
    assert [(event.event, event.result) for event in events] == [
        ("compute_terminate_instance", "Success"),
        ("compute_soft_delete_instance", "Success"),
    ]


def test_many_are_reclaimed_in_pieces(cell_of: NewCell) -> None:
    cell = cell_of(host("node1", vcpus=80, memory_mib=80 * 512))
    uuids = cell.boot(60)
    cell.bus.run()
    for uuid in uuids:
        cell.delete(uuid, soft=True)
    cell.bus.run()
    assert [cell.reclaim(), cell.reclaim(), cell.reclaim()] == [50, 10, 0]
    cell.bus.run()
    assert cell.check() == {}


def test_a_reclaim_that_fails_is_tried_again(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    cell, uuid = running
    soft_delete(cell, uuid)
    with monkeypatch.context() as patch:
        patch.setattr(cell.drivers["node1"], "destroy", fail)
        cell.reclaim()
        cell.bus.run()
    assert states(cell.instance(uuid)) == (VmState.SOFT_DELETED, None, PowerState.SHUTDOWN)
    assert used(cell) == Usage()
    cell.reclaim()
    cell.bus.run()
    assert cell.check() == {}


def test_what_a_killed_process_has_begun_to_reclaim_goes_on(sqlite_template: Path, tmp_path: Path) -> None:
    cell = new_cell(sqlite_template, tmp_path, host("node1"))
    (uuid,) = cell.boot()
    cell.bus.run()
    soft_delete(cell, uuid)
    assert cell.reclaim() == 1
    cell.database.close()
    after = cell.restart()
    assert after.reclaim() == 0
    after.work_off()
    assert after.check() == {}
    after.database.close()
