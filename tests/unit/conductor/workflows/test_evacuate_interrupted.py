# SPDX-License-Identifier: Apache-2.0
"""What is under way for a server that is evacuated, and what comes while it is."""

from collections.abc import Callable

import pytest

from kilonova.errors import Conflict, UnexpectedTaskState
from kilonova.model.instance import VmState
from support.cell import SMALL, Cell, NewCell, host
from support.evacuations import HOSTS, boot, having, migrations, room, running

ACTIVE = VmState.ACTIVE


@pytest.fixture
def cell(cell_of: NewCell) -> Cell:
    made: Cell = cell_of(*HOSTS)
    return made


@pytest.mark.parametrize("after", range(0, 12, 2))
def test_a_source_that_comes_back_meanwhile(cell_of: NewCell, after: int) -> None:
    cell = cell_of(*HOSTS)
    uuid = boot(cell)
    cell.bus.cut_off = {"node1"}
    both = watch_for_two(cell, uuid)
    cell.evacuate(uuid)
    for _ in range(after):
        cell.bus.step()
    cell.reconnect()
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.host) == (ACTIVE, "node2")
    assert not both
    assert having(cell, uuid) == ["node2"]
    assert migrations(cell, uuid) == [("completed", "node1", "node2")]
    cell.check()


def watch_for_two(cell: Cell, uuid: str) -> list[str]:
    """Note whenever a guest is made while another host that can be reached runs one."""
    both: list[str] = []
    for name, driver in cell.drivers.items():

        def watched(*args: object, make: Callable[..., None] = driver.rebuild, here: str = name, **kw: object) -> None:
            make(*args, **kw)
            both.extend(other for other in running(cell, uuid) if other not in {here, *cell.bus.cut_off})

        driver.rebuild = watched
    return both


@pytest.mark.parametrize("after", range(0, 10, 2))
def test_a_delete_meanwhile(cell_of: NewCell, after: int) -> None:
    cell = cell_of(*HOSTS)
    uuid = boot(cell)
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid)
    for _ in range(after):
        cell.bus.step()
    cell.delete(uuid)
    cell.bus.run()
    assert cell.find(uuid) is None
    assert room(cell) == {}
    cell.reconnect()
    cell.bus.run()
    assert having(cell, uuid) == []
    cell.check()


@pytest.mark.parametrize("after", range(0, 10, 3))
def test_a_soft_delete_meanwhile_leaves_what_can_be_restored(cell_of: NewCell, after: int) -> None:
    cell = cell_of(*HOSTS)
    uuid = boot(cell)
    cell.evacuate(uuid)
    for _ in range(after):
        cell.bus.step()
    cell.delete(uuid, soft=True)
    cell.work_off()
    if cell.find(uuid) is None:
        return  # nothing could be kept
    cell.restore(uuid)
    cell.work_off()
    server = cell.instance(uuid)
    assert (server.vm_state, running(cell, uuid), having(cell, uuid)) == (ACTIVE, [server.host], [server.host])
    cell.check()


@pytest.mark.parametrize("kind", ["stop", "reboot", "hard-reboot"])
def test_what_hangs_on_the_dead_host_gives_way(cell: Cell, kind: str) -> None:
    uuid = boot(cell)
    cell.power(uuid, kind)
    cell.bus._work.clear()
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid)
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.task_state, server.host) == (ACTIVE, None, "node2")
    cell.check()


def has_begun(cell: Cell, uuid: str, begin: Callable[[Cell, str], None], steps: int) -> bool:
    """Begin something and let so many steps of it pass; tell whether it is still under way."""
    begin(cell, uuid)
    for _ in range(steps):
        cell.bus.step()
    server = cell.instance(uuid)
    return server.vm_state is ACTIVE and server.task_state is not None


@pytest.mark.parametrize("step", range(1, 14, 2))
@pytest.mark.parametrize("begin", [Cell.resize, Cell.live_migrate, Cell.rebuild])
def test_whatever_is_under_way_ends_without_the_dead_host(
    cell_of: NewCell, begin: Callable[[Cell, str], None], step: int
) -> None:
    cell = cell_of(*HOSTS)
    uuid = boot(cell)
    if not has_begun(cell, uuid, begin, step):
        return
    cell.bus.cut_off = {str(cell.instance(uuid).host)}
    cell.evacuate(uuid)
    cell.work_off()
    after = cell.instance(uuid)
    assert (after.vm_state, after.task_state) == (ACTIVE, None)
    assert after.host not in cell.bus.cut_off
    cell.reconnect()
    cell.work_off()
    assert having(cell, uuid) == [after.host]
    assert room(cell) == {after.host: 1}
    cell.check()


def resize_in_place(cell: Cell, uuid: str) -> None:
    cell.resize(uuid, stays=True)


@pytest.mark.parametrize("step", range(1, 14))
@pytest.mark.parametrize("begin", [Cell.resize, Cell.migrate, Cell.live_migrate, Cell.rebuild, resize_in_place])
def test_whatever_is_under_way_leaves_no_guest_on_a_host_that_was_only_declared_down(
    cell_of: NewCell, begin: Callable[[Cell, str], None], step: int
) -> None:
    cell = cell_of(*HOSTS)
    uuid = boot(cell)
    if not has_begun(cell, uuid, begin, step):
        return
    cell.evacuate(uuid)
    for _ in range(100):
        cell.bus.step()
        assert len(running(cell, uuid)) <= 1
    cell.work_off()
    after = cell.instance(uuid)
    assert having(cell, uuid) == [after.host]
    assert room(cell) == {after.host: 1}
    cell.check()


@pytest.mark.parametrize("back", range(1, 12))
def test_a_destination_that_comes_back_while_a_move_ends_without_it(cell_of: NewCell, back: int) -> None:
    cell = cell_of(*HOSTS)
    uuid = boot(cell)
    cell.resize(uuid)
    while "node2" not in running(cell, uuid):
        assert cell.bus.step()
    cell.bus.cut_off = {"node2"}
    cell.evacuate(uuid)
    for _ in range(back):
        cell.bus.step()
    cell.reconnect()
    cell.work_off()
    assert having(cell, uuid) == [cell.instance(uuid).host]
    cell.check()


def test_one_that_waits_is_not_joined_by_another(cell: Cell) -> None:
    uuid = boot(cell)
    cell.power(uuid, "stop")
    cell.evacuate(uuid)
    with pytest.raises(Conflict):
        cell.evacuate(uuid)
    cell.bus.run()
    assert cell.instance(uuid).host == "node2"
    cell.check()


def test_a_server_that_is_being_deleted_stays(cell: Cell) -> None:
    uuid = boot(cell)
    cell.delete(uuid)
    with pytest.raises(UnexpectedTaskState):
        cell.evacuate(uuid)
    cell.bus.run()
    cell.check()


@pytest.mark.parametrize("step", range(0, 14, 2))
def test_there_is_one_at_a_time(cell: Cell, step: int) -> None:
    uuid = boot(cell)
    cell.evacuate(uuid)
    for _ in range(step):
        cell.bus.step()
    if cell.instance(uuid).task_state is not None:
        with pytest.raises(Conflict, match="being evacuated already"):
            cell.evacuate(uuid)
    cell.work_off()
    assert [status for status, _, _ in migrations(cell, uuid)] == ["completed"]
    cell.check()


@pytest.mark.parametrize("waits", [Cell.resize, Cell.rebuild, Cell.migrate])
def test_what_waits_for_other_work_is_taken_back(cell: Cell, waits: Callable[[Cell, str], None]) -> None:
    uuid = boot(cell)
    cell.crash_dump(uuid)
    waits(cell, uuid)
    cell.evacuate(uuid)
    cell.work_off()
    assert (cell.instance(uuid).vm_state, cell.instance(uuid).host) == (ACTIVE, "node2")
    assert {status for status, *_ in migrations(cell, uuid)} <= {"completed", "error"}
    cell.check()


@pytest.mark.parametrize("step", range(1, 5))
def test_a_resize_in_place_that_gives_way_leaves_the_server_its_old_size(cell_of: NewCell, step: int) -> None:
    """Its record may have had the new flavor already when the evacuation was asked for."""
    cell = cell_of(host("node1", vcpus=32, memory_mib=32768), host("node2"))
    uuid = boot(cell)
    assert has_begun(cell, uuid, resize_in_place, step)
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid)
    cell.work_off()
    cell.reconnect()
    cell.work_off()
    server = cell.instance(uuid)
    assert (server.vm_state, server.host, server.flavor) == (VmState.ACTIVE, "node2", SMALL)
    cell.check()
