# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.errors import NotFound
from kilonova.model.instance import VmState
from kilonova.model.quota import Usage
from support.cell import NewCell, asker, host
from support.soft_deletes import used


@pytest.mark.parametrize("state", [VmState.ACTIVE, VmState.ERROR])
def test_a_soft_deleted_server_whose_state_is_reset_counts_against_its_quota_again(
    cell_of: NewCell, state: VmState
) -> None:
    cell = cell_of(host("node1"))
    (uuid,) = cell.boot()
    cell.work_off()
    before = used(cell)
    cell.delete(uuid, soft=True)
    cell.work_off()
    assert used(cell) == Usage()
    for _ in range(2):  # once only
        cell.conductor.operations.states.reset(cell.instance(uuid), state, asker("req-reset"))
        assert used(cell) == before
    present = cell.instance(uuid)
    assert (present.vm_state, present.task_state, present.deleted_at) == (state, None, None)


def test_a_deleted_server_has_no_state(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"))
    (uuid,) = cell.boot()
    cell.work_off()
    gone = cell.instance(uuid)
    cell.delete(uuid)
    cell.work_off()
    with pytest.raises(NotFound):
        cell.conductor.operations.states.reset(gone, VmState.ACTIVE, asker("req-reset"))
