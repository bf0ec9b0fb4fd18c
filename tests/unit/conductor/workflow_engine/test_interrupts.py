# SPDX-License-Identifier: Apache-2.0
"""Two who want different things of one workflow, and interrupts that are not for what is under way."""

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from kilonova.conductor.workflow_engine.run import Interrupt
from kilonova.db import workflows
from kilonova.db.core import tables as t
from kilonova.errors import Conflict
from kilonova.messaging.messages import LiveMigrate
from kilonova.model.instance import TaskState, VmState
from support.cell import Cell, NewCell, asker, host

Act = Interrupting = Callable[[Cell, str], None]


@pytest.fixture
def cell(cell_of: NewCell) -> Cell:
    return cell_of(host("node1", failing_live_migrations=-1), host("node2"))


def migrating(cell: Cell) -> str:
    """Return a server that is being copied."""
    (uuid,) = cell.boot(force_host="node1")
    cell.bus.run()
    cell.live_migrate(uuid)
    while not any(isinstance(message, LiveMigrate) for message in cell.bus.sent):
        cell.bus.step()
    return uuid


def has_fault(cell: Cell, uuid: str) -> bool:
    with cell.database.read() as connection:
        faults = connection.execute(sa.select(t.instance_faults.c.instance_uuid)).scalars()
        return uuid in set(faults)


def test_a_copy_that_fails_although_it_was_to_end_soon_ends_in_a_fault(cell: Cell) -> None:
    uuid = migrating(cell)
    cell.force_complete(uuid)
    cell.bus.run()
    assert cell.check() == {uuid: VmState.ACTIVE}
    assert has_fault(cell, uuid)


@pytest.mark.parametrize("weaker", [Cell.abort, Cell.force_complete])
def test_a_delete_stands_whatever_is_wanted_later(cell: Cell, weaker: Interrupting) -> None:
    uuid = migrating(cell)
    cell.delete(uuid)
    with pytest.raises(Conflict, match="already ending"):
        weaker(cell, uuid)
    cell.bus.run()
    assert cell.check() == {}


def test_an_abort_stands_against_a_wish_to_end_soon(cell: Cell) -> None:
    uuid = migrating(cell)
    cell.abort(uuid)
    with pytest.raises(Conflict, match="already ending"):
        cell.force_complete(uuid)
    cell.bus.run()
    assert cell.check() == {uuid: VmState.ACTIVE}
    assert not has_fault(cell, uuid)


@pytest.mark.parametrize("why", [Interrupt.ABORT, Interrupt.FORCE_COMPLETE])
def test_what_is_no_live_migration_goes_on(cell: Cell, why: Interrupt) -> None:
    (uuid,) = cell.boot()
    assert cell.database.write(lambda tx: cell.conductor.runner.interrupt(tx, uuid, why)) == ()
    cell.bus.run()
    assert cell.check() == {uuid: VmState.ACTIVE}


def moving(cell_of: NewCell) -> tuple[Cell, str]:
    """Return a server that is being made on the second host, which will fail."""
    cell = cell_of(host("node1"), host("node2", failing_moves=-1), host("node3", memory_mib=2048))
    (uuid,) = cell.boot(force_host="node1", group=cell.add_group("soft-anti-affinity"))
    cell.bus.run()
    cell.migrate(uuid, "node2")
    while cell.instance(uuid).task_state is not TaskState.RESIZE_FINISH:
        cell.bus.step()
    return cell, uuid


@pytest.mark.parametrize("then", [Cell.evacuate, Cell.migrate])
def test_what_ends_because_of_a_delete_is_waited_for_once_the_state_was_reset(cell_of: NewCell, then: Act) -> None:
    """Two would work on one server at the same time otherwise, and count it twice."""
    cell, uuid = moving(cell_of)
    cell.bus.cut_off = {"node2"}
    cell.delete(uuid, soft=True)
    cell.conductor.operations.states.reset(cell.instance(uuid), VmState.ACTIVE, asker("req-reset"))
    then(cell, uuid)
    with cell.database.read() as connection:
        beginning = [row.kind for row in workflows.of_instance(connection, uuid) if not row.waiting]
    assert beginning == ["migrate"]
    cell.reconnect()
    cell.work_off()
    cell.delete(uuid)
    cell.work_off()
    cell.check()


def hard_reboot(cell: Cell, uuid: str) -> None:
    cell.power(uuid, "hard-reboot")


@pytest.mark.parametrize("then", [Cell.rebuild, hard_reboot, Cell.rescue])
def test_nothing_else_begins_while_a_move_ends_whose_server_shows_no_task(cell_of: NewCell, then: Act) -> None:
    """It would reach the host that the server is about to leave."""
    cell, uuid = moving(cell_of)
    cell.conductor.operations.states.reset(cell.instance(uuid), VmState.ACTIVE, asker("req-reset"))
    with pytest.raises(Conflict, match="migrate"):
        then(cell, uuid)
    cell.work_off()
    assert cell.instance(uuid).host == "node1"
    then(cell, uuid)
    cell.work_off()
    cell.check()


def test_nothing_else_begins_while_a_revert_ends_whose_server_shows_no_task(cell_of: NewCell) -> None:
    """It would reach the destination, which the server is about to leave."""
    cell = cell_of(host("node1"), host("node2"))
    (uuid,) = cell.boot(force_host="node1")
    cell.bus.run()
    cell.migrate(uuid, "node2")
    cell.bus.run()
    cell.revert(uuid)
    cell.bus.step()
    cell.conductor.operations.states.reset(cell.instance(uuid), VmState.ACTIVE, asker("req-reset"))
    with pytest.raises(Conflict, match="revert-resize"):
        cell.power(uuid, "stop")
    cell.work_off()
    assert cell.instance(uuid).host == "node1"
    cell.power(uuid, "stop")
    cell.work_off()
    assert cell.check() == {uuid: VmState.STOPPED}
