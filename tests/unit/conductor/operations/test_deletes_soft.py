# SPDX-License-Identifier: Apache-2.0
import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from kilonova.db import instance_actions, quotas, services, soft_deletes
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.errors import DriverError, OverQuota, UnexpectedTaskState
from kilonova.model.instance import Instance, PowerState, TaskState, VmState
from kilonova.model.quota import NO_LIMITS, Usage
from support.cell import IMAGE, SMALL, Cell, NewCell, host, new_cell
from support.folder_images import FolderImages
from support.world import power_states_on_disk

Running = tuple[Cell, str]


@pytest.fixture
def running(cell_of: NewCell) -> Running:
    cell = cell_of(host("node1"), host("node2"))
    (uuid,) = cell.boot(force_host="node1")
    cell.bus.run()
    return cell, uuid


def fail(_uuid: str, **_: object) -> None:
    raise DriverError("The guest does not obey.")


def used(cell: Cell) -> Usage:
    with cell.database.read() as connection:
        return quotas.usage_of(connection, "wonder")


def states(instance: Instance) -> tuple[VmState, TaskState | None, PowerState]:
    return instance.vm_state, instance.task_state, instance.power_state


def soft_delete(cell: Cell, uuid: str) -> None:
    cell.delete(uuid, soft=True)
    cell.work_off()


def test_a_soft_delete_powers_the_guest_off_and_keeps_it(running: Running) -> None:
    cell, uuid = running
    cell.delete(uuid, soft=True)
    asked = cell.instance(uuid)
    assert (asked.vm_state, asked.task_state) == (VmState.ACTIVE, TaskState.SOFT_DELETING)
    assert asked.deleted_at is not None
    cell.bus.run()
    kept = cell.instance(uuid)
    assert states(kept) == (VmState.SOFT_DELETED, None, PowerState.SHUTDOWN)
    assert kept.deleted_at == asked.deleted_at
    assert power_states_on_disk(cell.folder / "hypervisors") == {uuid: PowerState.SHUTDOWN}
    assert used(cell) == Usage(), "it counts against no quota"
    cell.check()


def test_a_restore_powers_it_on(running: Running) -> None:
    cell, uuid = running
    soft_delete(cell, uuid)
    cell.restore(uuid)
    assert cell.instance(uuid).task_state is TaskState.RESTORING
    assert used(cell) == Usage.of(SMALL)
    cell.bus.run()
    restored = cell.instance(uuid)
    assert states(restored) == (VmState.ACTIVE, None, PowerState.RUNNING)
    assert restored.deleted_at is None
    assert cell.reclaim() == 0
    cell.check()


def test_a_restore_counts_against_the_quota_again(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"), limits={**NO_LIMITS, "instances": 2})
    first, second = cell.boot(2)
    cell.bus.run()
    soft_delete(cell, first)
    (third,) = cell.boot()
    cell.bus.run()
    with pytest.raises(OverQuota):
        cell.restore(first)
    assert states(cell.instance(first)) == (VmState.SOFT_DELETED, None, PowerState.SHUTDOWN), "nothing half done"
    for uuid in (second, third):
        cell.delete(uuid)
    cell.bus.run()
    cell.restore(first)
    cell.bus.run()
    assert cell.check() == {first: VmState.ACTIVE}


def test_only_a_soft_deleted_server_is_restored(running: Running) -> None:
    cell, uuid = running
    with pytest.raises(UnexpectedTaskState):
        cell.restore(uuid)
    cell.check()


def test_a_restore_that_fails_leaves_it_soft_deleted_since_it_was(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell, uuid = running
    soft_delete(cell, uuid)
    deleted_at = cell.instance(uuid).deleted_at
    monkeypatch.setattr(cell.drivers["node1"], "start", fail)
    cell.restore(uuid)
    cell.bus.run()
    instance = cell.instance(uuid)
    assert states(instance) == (VmState.SOFT_DELETED, None, PowerState.SHUTDOWN)
    assert instance.deleted_at == deleted_at
    assert used(cell) == Usage()
    cell.check()


@pytest.fixture
def with_images(cell_of: NewCell, tmp_path: Path) -> Running:
    images = FolderImages(tmp_path / "images")
    images.add(IMAGE.id, b"cirros")
    cell = cell_of(host("node1"), images=images)
    (uuid,) = cell.boot()
    cell.work_off()
    return cell, uuid


def test_a_shelved_server_that_is_restored_runs_from_its_own_disk(with_images: Running) -> None:
    cell, uuid = with_images
    cell.shelve(uuid, offload=False)
    cell.work_off()
    image = cell.instance(uuid).shelved_image
    assert image is not None
    soft_delete(cell, uuid)
    assert cell.instance(uuid).shelved_image == image, "it may be restored"
    cell.restore(uuid)
    cell.work_off()
    assert (cell.instance(uuid).vm_state, cell.instance(uuid).shelved_image) == (VmState.ACTIVE, None)
    with cell.database.read() as connection:
        assert connection.execute(sa.select(t.unwanted_images.c.image_id)).scalars().all() == [image]


def test_an_offloaded_server_is_deleted_at_once(with_images: Running) -> None:
    cell, uuid = with_images
    cell.shelve(uuid)
    cell.work_off()
    assert cell.instance(uuid).vm_state is VmState.SHELVED_OFFLOADED
    soft_delete(cell, uuid)
    assert cell.find(uuid) is None


def test_a_soft_delete_that_fails_leaves_the_server_as_it_was(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell, uuid = running
    monkeypatch.setattr(cell.drivers["node1"], "stop", fail)
    soft_delete(cell, uuid)
    instance = cell.instance(uuid)
    assert states(instance) == (VmState.ACTIVE, None, PowerState.RUNNING)
    assert instance.deleted_at is None
    assert cell.reclaim() == 0
    assert used(cell) == Usage.of(SMALL)
    cell.check()


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


def test_a_resized_server_is_confirmed_first(running: Running) -> None:
    cell, uuid = running
    cell.resize(uuid)
    cell.bus.run()
    soft_delete(cell, uuid)
    instance = cell.instance(uuid)
    assert (instance.vm_state, instance.host, instance.flavor.name) == (VmState.SOFT_DELETED, "node2", "m1.small")
    assert cell.open_migration(uuid) is None
    cell.check()
    cell.restore(uuid)
    cell.bus.run()
    assert cell.check() == {uuid: VmState.ACTIVE}


def test_a_soft_delete_during_a_resize_waits_until_that_has_walked_back(running: Running) -> None:
    cell, uuid = running
    cell.resize(uuid)
    cell.delete(uuid, soft=True)
    cell.work_off()
    assert cell.check() == {uuid: VmState.SOFT_DELETED}
    assert cell.instance(uuid).host == "node1"


def test_a_server_that_never_ran_is_deleted_at_once(cell_of: NewCell) -> None:
    cell = cell_of(host("node1", failing_spawns=-1), max_attempts=1)
    failed, building = *cell.boot(), *cell.boot()
    cell.bus.run()
    (building,) = cell.boot()
    for uuid in (failed, building):
        soft_delete(cell, uuid)
        assert cell.find(uuid) is None


def test_without_its_host_a_server_is_deleted_at_once(running: Running) -> None:
    cell, uuid = running
    cell.database.write(lambda tx: services.update(tx, _service(tx), forced_down=True))
    soft_delete(cell, uuid)
    assert cell.check() == {}


def _service(tx: Transaction) -> str:
    return services.get_by_host(tx.connection, "node1").uuid


@pytest.mark.parametrize("resized", [False, True])
def test_a_host_that_goes_away_meanwhile_has_it_deleted(running: Running, *, resized: bool) -> None:
    cell, uuid = running
    if resized:
        cell.resize(uuid)
        cell.bus.run()
    there = cell.instance(uuid).host
    assert there is not None
    cell.bus.cut_off = {there}
    cell.delete(uuid, soft=True)
    cell.work_off()
    assert cell.find(uuid) is None
    with cell.database.read() as connection:
        (action,) = instance_actions.list_page(connection, instance_actions.ActionQuery(uuid, limit=1))
    assert (action.action, action.message) == ("delete", None), "it goes on as the same action"
    cell.reconnect()
    cell.work_off()
    assert cell.check() == {}, "the host removes what it has when it is back"


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


def test_a_restore_is_not_reclaimed(running: Running) -> None:
    cell, uuid = running
    soft_delete(cell, uuid)
    cell.restore(uuid)
    assert cell.reclaim() == 0
    cell.bus.run()
    assert cell.check() == {uuid: VmState.ACTIVE}


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
