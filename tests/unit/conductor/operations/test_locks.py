# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.db import instance_actions
from kilonova.errors import Forbidden
from kilonova.model.instance import Instance, LockedBy
from support.cell import Cell, NewCell, asker, host

OWNER, ADMIN = LockedBy.OWNER, LockedBy.ADMIN


@pytest.fixture
def server(cell_of: NewCell) -> tuple[Cell, Instance]:
    cell = cell_of(host("node1"))
    (uuid,) = cell.boot()
    cell.work_off()
    return cell, cell.instance(uuid)


def is_recorded(cell: Cell, uuid: str, request_id: str) -> bool:
    with cell.database.read() as connection:
        return instance_actions.find(connection, uuid, request_id) is not None


def test_a_lock_of_an_administrator_replaces_that_of_the_owner_and_not_the_other_way(
    server: tuple[Cell, Instance],
) -> None:
    cell, instance = server
    locks = cell.conductor.operations.locks
    locks.lock(instance, asker("req-1"), OWNER, "mine")
    assert locks.lock(instance, asker("req-2"), OWNER, "again") is None
    locks.lock(instance, asker("req-3"), ADMIN, "audit")
    assert locks.lock(instance, asker("req-4"), OWNER) is None
    present = cell.instance(instance.uuid)
    assert (present.locked_by, present.locked_reason) == (ADMIN, "audit")
    assert [is_recorded(cell, instance.uuid, f"req-{number}") for number in range(1, 5)] == [True, False, True, False]


def test_the_check_of_an_unlock_sees_the_lock_as_it_is_by_then(server: tuple[Cell, Instance]) -> None:
    cell, instance = server
    locks = cell.conductor.operations.locks
    assert locks.unlock(instance, asker("req-1")) is None, "it is not locked"
    locks.lock(instance, asker("req-2"), ADMIN)

    def check(present: Instance) -> None:
        if present.locked_by == ADMIN:
            raise Forbidden("An administrator has locked it.")

    with pytest.raises(Forbidden):
        locks.unlock(instance, asker("req-3"), check)
    assert cell.instance(instance.uuid).locked_by == ADMIN
    unlocked = locks.unlock(instance, asker("req-4"))
    assert unlocked is not None
    assert unlocked.locked_by is cell.instance(instance.uuid).locked_by is None
