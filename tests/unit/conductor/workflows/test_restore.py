# SPDX-License-Identifier: Apache-2.0
"""Restores of soft-deleted servers."""

import pytest
import sqlalchemy as sa

from kilonova.db.core import tables as t
from kilonova.errors import OverQuota, UnexpectedTaskState
from kilonova.model.instance import PowerState, TaskState, VmState
from kilonova.model.quota import NO_LIMITS, Usage
from support.cell import SMALL, NewCell, Running, host
from support.soft_deletes import fail, soft_delete, states, used


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


def test_a_shelved_server_that_is_restored_runs_from_its_own_disk(running_of_image: Running) -> None:
    cell, uuid = running_of_image
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


def test_a_restore_is_not_reclaimed(running: Running) -> None:
    cell, uuid = running
    soft_delete(cell, uuid)
    cell.restore(uuid)
    assert cell.reclaim() == 0
    cell.bus.run()
    assert cell.check() == {uuid: VmState.ACTIVE}
