# SPDX-License-Identifier: Apache-2.0
"""Soft deletes: the guest is powered off and kept, and each other case that deletes at once."""

import pytest

from kilonova.db import instance_actions, services
from kilonova.db.core.transaction import Transaction
from kilonova.model.instance import PowerState, TaskState, VmState
from kilonova.model.quota import Usage
from support.cell import SMALL, NewCell, Running, host
from support.soft_deletes import fail, soft_delete, states, used
from support.world import power_states_on_disk


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


def test_an_offloaded_server_is_deleted_at_once(running_of_image: Running) -> None:
    cell, uuid = running_of_image
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
