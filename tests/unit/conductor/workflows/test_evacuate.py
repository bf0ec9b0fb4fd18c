# SPDX-License-Identifier: Apache-2.0
"""Servers leave hosts that are taken for dead; whatever comes back, there is never more than one guest."""

import pytest
import sqlalchemy as sa

from kilonova.db.core import tables as t
from kilonova.messaging.messages import DestroyGuest, RebuildGuest, SpawnGuest
from kilonova.model.instance import PowerState, TaskState, VmState
from support.cell import Cell, NewCell, host
from support.evacuations import HOSTS, boot, having, migrations, room, running

ACTIVE, STOPPED = VmState.ACTIVE, VmState.STOPPED


@pytest.fixture
def cell(cell_of: NewCell) -> Cell:
    made: Cell = cell_of(*HOSTS)
    return made


def test_a_dead_host_is_left_and_cleans_up_when_it_is_back(cell: Cell) -> None:
    uuid = boot(cell)
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid)
    assert cell.instance(uuid).task_state is TaskState.REBUILDING
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.task_state, server.host) == (ACTIVE, None, "node2")
    assert migrations(cell, uuid) == [("done", "node1", "node2")]
    assert room(cell) == {"node1": 1, "node2": 1}
    assert having(cell, uuid) == ["node1", "node2"]
    cell.check()
    cell.reconnect()
    cell.bus.run()
    assert (having(cell, uuid), running(cell, uuid)) == (["node2"], ["node2"])
    assert migrations(cell, uuid) == [("completed", "node1", "node2")]
    assert room(cell) == {"node2": 1}
    cell.check()


def test_a_host_that_comes_back_without_the_guest_is_clean(cell: Cell) -> None:
    uuid = boot(cell)
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid)
    cell.bus.run()
    cell.drivers["node1"].destroy(uuid)
    cell.reconnect()
    assert migrations(cell, uuid) == [("completed", "node1", "node2")]
    cell.check()


def test_a_host_that_was_only_declared_down_powers_off_first(cell: Cell) -> None:
    uuid = boot(cell)
    driver, seen = cell.drivers["node2"], []
    rebuild = driver.rebuild

    def watched(*args: object, **kwargs: object) -> None:
        seen.append(running(cell, uuid))
        rebuild(*args, **kwargs)

    driver.rebuild = watched
    cell.evacuate(uuid)
    cell.bus.run()
    assert seen == [[]]
    assert (having(cell, uuid), running(cell, uuid)) == (["node2"], ["node2"])
    assert migrations(cell, uuid) == [("completed", "node1", "node2")]
    assert room(cell) == {"node2": 1}
    cell.check()


@pytest.mark.parametrize(
    ("state", "stops", "settled"),
    [("active", False, ACTIVE), ("active", True, STOPPED), ("stopped", False, STOPPED), ("error", False, ACTIVE)],
)
def test_in_which_state_a_server_arrives(cell: Cell, state: str, stops: bool, settled: VmState) -> None:
    uuid = boot(cell)
    if state == "stopped":
        cell.power(uuid, "stop")
        cell.bus.run()
    if state == "error":
        failing = sa.update(t.instances).where(t.instances.c.uuid == uuid)
        cell.database.write(lambda tx: tx.execute(failing.values(vm_state="error")))
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid, stops=stops)
    cell.bus.run()
    server = cell.instance(uuid)
    power = PowerState.RUNNING if settled is ACTIVE else PowerState.SHUTDOWN
    assert (server.vm_state, server.host, server.power_state) == (settled, "node2", power)
    cell.check()


def test_a_host_that_somebody_names(cell: Cell) -> None:
    uuid = boot(cell)
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid, "node3")
    cell.bus.run()
    assert cell.instance(uuid).host == "node3"
    cell.check()


def test_a_server_that_was_evacuated_is_deleted_before_its_host_is_back(cell: Cell) -> None:
    uuid = boot(cell, group=cell.add_group("anti-affinity"))
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid)
    cell.bus.run()
    cell.delete(uuid)
    cell.bus.run()
    assert (room(cell), migrations(cell, uuid)) == ({}, [("completed", "node1", "node2")])
    cell.reconnect()
    cell.bus.run()
    assert having(cell, uuid) == []
    cell.check()


def test_an_evacuated_server_moves_on_before_its_host_is_back(cell: Cell) -> None:
    uuid = boot(cell)
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid)
    cell.bus.run()
    cell.resize(uuid)
    cell.bus.run()
    assert cell.instance(uuid).vm_state is VmState.RESIZED
    assert cell.instance(uuid).host == "node3"
    cell.check()
    cell.confirm(uuid)
    cell.bus.run()
    cell.check()
    assert room(cell) == {"node1": 1, "node3": 1}
    cell.reconnect()
    cell.bus.run()
    assert room(cell) == {"node3": 1}
    cell.check()


def test_it_does_not_go_back_to_a_host_that_has_yet_to_clean_up(cell_of: NewCell) -> None:
    cell = cell_of(host("node1", memory_mib=16384), host("node2"))
    uuid = boot(cell)
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid)
    cell.bus.run()
    cell.bus.cut_off = set()
    cell.migrate(uuid)
    cell.bus.run()
    assert (cell.instance(uuid).host, cell.instance(uuid).vm_state) == ("node2", ACTIVE)
    cell.bus.cut_off = {"node1"}
    cell.reconnect()
    cell.bus.run()
    cell.migrate(uuid)
    cell.bus.run()
    assert (cell.instance(uuid).host, cell.instance(uuid).vm_state) == ("node1", VmState.RESIZED)
    cell.check()


def test_nothing_is_ordered_twice(cell: Cell) -> None:
    uuid = boot(cell)
    cell.bus.cut_off = {"node1"}
    del cell.bus.sent[:]
    cell.evacuate(uuid)
    cell.bus.run()
    assert [type(message) for message in cell.bus.sent] == [RebuildGuest]
    assert not any(isinstance(message, (DestroyGuest, SpawnGuest)) for message in cell.bus.sent)
