# SPDX-License-Identifier: Apache-2.0
"""Guests that a dead host keeps of a move which comes to nothing, and that it takes back when it returns."""

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from kilonova.compute.virt.fake.driver import FakeDriver
from kilonova.compute.virt.fake.guests import GuestFile, SimulatedGuest
from kilonova.db.core import tables as t
from kilonova.errors import DriverError
from kilonova.model.instance import PowerState, VmState
from support.cell import SMALL, Cell, NewCell, host
from support.evacuations import boot, having, migrations, running

ALONE = (host("node1", vcpus=6, memory_mib=8192),)
Begin = Callable[[Cell, str], None]


def resize_in_place(cell: Cell, uuid: str) -> None:
    cell.resize(uuid, stays=True)


def recorded(cell: Cell) -> int:
    with cell.database.read() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(t.homecomings)).scalar_one())


def guest_of(cell: Cell, uuid: str, name: str = "node1") -> SimulatedGuest | None:
    return GuestFile(name, cell.folder / "hypervisors" / f"{name}.json").places[uuid].guest


def evacuate_in_vain(cell: Cell, uuid: str, begin: Begin, steps: int) -> bool:
    """Lose the host in the middle of something, and evacuate; tell whether it was still under way."""
    begin(cell, uuid)
    for _ in range(steps):
        cell.bus.step()
    if cell.instance(uuid).task_state is None:
        return False
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid)
    cell.work_off()
    after = cell.instance(uuid)
    assert (after.vm_state, after.task_state, after.host) == (VmState.ERROR, None, "node1")
    return True


@pytest.mark.parametrize("steps", range(1, 8))
def test_a_resize_on_the_only_host_is_undone_when_it_is_back(cell_of: NewCell, steps: int) -> None:
    cell = cell_of(*ALONE)
    uuid = boot(cell)
    if not evacuate_in_vain(cell, uuid, resize_in_place, steps):
        return
    cell.reconnect()
    cell.work_off()
    assert running(cell, uuid) == ["node1"]
    guest = guest_of(cell, uuid)
    assert guest is not None
    assert (guest.vcpus, guest.memory_mib) == (SMALL.vcpus, SMALL.memory_mib)
    assert recorded(cell) == 0
    assert {status for status, *_ in migrations(cell, uuid)} == {"error"}
    cell.check()
    cell.power(uuid, "hard-reboot")
    cell.work_off()
    cell.resize(uuid, stays=True)
    cell.work_off()
    assert cell.instance(uuid).vm_state is VmState.RESIZED
    cell.check()


@pytest.mark.parametrize("meanwhile", range(0, 8, 2))
def test_a_host_that_is_back_before_the_evacuation_is_given_up(cell_of: NewCell, meanwhile: int) -> None:
    cell = cell_of(*ALONE)
    uuid = boot(cell)
    resize_in_place(cell, uuid)
    for _ in range(3):
        cell.bus.step()
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid)
    for _ in range(meanwhile):
        cell.bus.step()
    cell.reconnect()
    cell.work_off()
    assert having(cell, uuid) == ["node1"]
    assert recorded(cell) == 0
    cell.check()


@pytest.mark.parametrize("begin", [Cell.resize, Cell.migrate])
def test_a_move_to_another_host_that_an_evacuation_in_vain_interrupts(cell_of: NewCell, begin: Begin) -> None:
    cell = cell_of(*ALONE, host("node2"))
    uuid = boot(cell)
    begin(cell, uuid)
    while guest_of(cell, uuid) is not None:
        assert cell.bus.step()
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid, host="nowhere")
    come_back_with_a_record(cell, uuid)


def test_a_source_that_dies_after_it_has_powered_its_guest_off_for_an_evacuation(cell_of: NewCell) -> None:
    cell = cell_of(*ALONE, host("node2", memory_mib=8192, vcpus=6, failing_spawns=-1))
    uuid = boot(cell)
    cell.evacuate(uuid)
    while guest_of(cell, uuid) is not None:
        assert cell.bus.step()
    cell.bus.run_in_conductor(lambda: cell.bus.cut_off.add("node1"))  # when it has said so
    come_back_with_a_record(cell, uuid)


def come_back_with_a_record(cell: Cell, uuid: str) -> None:
    """The evacuation comes to nothing, and the source returns."""
    cell.work_off()
    after = cell.instance(uuid)
    assert (after.vm_state, after.host, recorded(cell)) == (VmState.ERROR, "node1", 1)
    assert (guest_of(cell, uuid), running(cell, uuid)) == (None, [])
    cell.reconnect()
    cell.work_off()
    assert (recorded(cell), running(cell, uuid)) == (0, ["node1"])
    cell.check()


def test_a_stopped_server_stays_off(cell_of: NewCell) -> None:
    cell = cell_of(*ALONE)
    uuid = boot(cell)
    cell.power(uuid, "stop")
    cell.work_off()
    assert evacuate_in_vain(cell, uuid, resize_in_place, 3)
    cell.evacuate(uuid)  # in vain again; by now its server is in error, and says no more how it was
    cell.work_off()
    cell.reconnect()
    cell.work_off()
    guest = guest_of(cell, uuid)
    assert guest is not None
    assert guest.state is PowerState.SHUTDOWN
    cell.check()


def test_a_host_that_fails_at_it_is_told_again_when_it_starts_next(
    cell_of: NewCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = cell_of(*ALONE)
    uuid = boot(cell)
    assert evacuate_in_vain(cell, uuid, resize_in_place, 3)

    def fail(*_args: object, **_named: object) -> PowerState:
        raise DriverError("No.")

    with monkeypatch.context() as patch:
        patch.setattr(FakeDriver, "return_home", fail)
        cell.reconnect()
        cell.work_off()
    assert recorded(cell) == 1
    cell.announce()
    cell.work_off()
    assert recorded(cell) == 0
    assert running(cell, uuid) == ["node1"]
    cell.check()


def test_a_record_that_was_not_forgotten_does_nothing_to_a_server_that_has_moved_since(
    cell_of: NewCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = cell_of(*ALONE)
    uuid = boot(cell)
    assert evacuate_in_vain(cell, uuid, resize_in_place, 3)
    with monkeypatch.context() as patch:
        patch.setattr(cell.bus, "tell", lambda *_args, **_named: None)
        cell.reconnect()
    assert recorded(cell) == 1
    cell.work_off()
    cell.power(uuid, "hard-reboot")
    cell.work_off()
    cell.resize(uuid, stays=True)
    cell.work_off()
    cell.announce()
    cell.work_off()
    assert cell.instance(uuid).vm_state is VmState.RESIZED
    cell.check()
    cell.delete(uuid)
    cell.work_off()
    cell.announce()
    assert having(cell, uuid) == []
    cell.check()


# --- agents that are alive, and fail at it ----------------------------------------------------------------------------


@pytest.fixture
def left_kept(cell_of: NewCell, monkeypatch: pytest.MonkeyPatch) -> tuple[Cell, str]:
    """A cloud after an evacuation in vain, at whose end the source, which is alive, did not take its guest back."""
    cell = cell_of(*ALONE, host("node2", memory_mib=8192, vcpus=6, failing_spawns=-1))
    uuid = boot(cell)

    def fail(*_args: object, **_named: object) -> PowerState:
        raise OSError("no such device")

    with monkeypatch.context() as patch:
        patch.setattr(FakeDriver, "return_home", fail)
        cell.evacuate(uuid)
        cell.work_off()
    after = cell.instance(uuid)
    assert (after.vm_state, after.task_state, after.host) == (VmState.ERROR, None, "node1")
    assert running(cell, uuid) == []
    return cell, uuid


def test_an_agent_that_fails_is_told_again_when_it_starts_next(left_kept: tuple[Cell, str]) -> None:
    cell, uuid = left_kept
    assert recorded(cell) == 1
    cell.announce()
    cell.work_off()
    assert (recorded(cell), running(cell, uuid)) == (0, ["node1"])
    cell.check()


def test_a_hard_reboot_takes_the_guest_back_that_is_only_kept(left_kept: tuple[Cell, str]) -> None:
    cell, uuid = left_kept
    file = cell.folder / "hypervisors" / "node1.json"
    kept = GuestFile("node1", file).places[uuid].kept
    cell.power(uuid, "hard-reboot")
    cell.work_off()
    place = GuestFile("node1", file).places[uuid]
    assert kept is not None
    assert place.guest is not None
    assert (place.kept, place.guest.ordered_at) == (None, kept.ordered_at), "the same one, with its disk"
    assert cell.instance(uuid).vm_state is VmState.ACTIVE
    cell.announce()
    cell.work_off()
    assert recorded(cell) == 0
    cell.check()


def test_a_record_goes_with_a_guest_that_an_evacuation_has_removed(
    cell_of: NewCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = cell_of(host("node1", vcpus=32, memory_mib=32768), host("node2"))
    uuid = boot(cell)
    resize_in_place(cell, uuid)
    for _ in range(3):
        cell.bus.step()

    def fail(*_args: object, **_named: object) -> PowerState:
        raise DriverError("No.")

    with monkeypatch.context() as patch:
        patch.setattr(FakeDriver, "return_home", fail)
        cell.evacuate(uuid)
        cell.work_off()
    assert (cell.instance(uuid).host, having(cell, uuid), recorded(cell)) == ("node2", ["node2"], 0)
    cell.check()
