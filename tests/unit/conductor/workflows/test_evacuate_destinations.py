# SPDX-License-Identifier: Apache-2.0
"""Hosts to which servers are evacuated fail, hang or die in turn, or there is none."""

import pytest

from kilonova.compute.agent import guests_of
from kilonova.errors import Conflict, DriverError
from kilonova.messaging.messages import MoveAway, RebuildGuest, RemoveGuest
from kilonova.model.instance import TaskState, VmState
from support.absent_hosts import come_back, vanish_after
from support.cell import Cell, NewCell, host
from support.evacuations import HOSTS, boot, having, migrations, room, running

ACTIVE, ERROR = VmState.ACTIVE, VmState.ERROR


@pytest.fixture
def cell(cell_of: NewCell) -> Cell:
    made: Cell = cell_of(*HOSTS)
    return made


def test_a_destination_that_fails_is_passed_over(cell: Cell) -> None:
    uuid = boot(cell)
    cell = cell.restart()
    cell.drivers["node2"].rebuild = refuse
    cell.evacuate(uuid)
    cell.bus.run()
    assert (cell.instance(uuid).vm_state, cell.instance(uuid).host) == (ACTIVE, "node3")
    assert migrations(cell, uuid) == [("completed", "node1", "node3")]
    assert having(cell, uuid) == ["node3"]
    cell.check()


def test_when_all_destinations_fail_the_source_has_it_again(cell: Cell) -> None:
    uuid = boot(cell)
    for name in ("node2", "node3"):
        cell.drivers[name].rebuild = refuse
    cell.evacuate(uuid)
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.host) == (ERROR, "node1")
    assert running(cell, uuid) == ["node1"]
    assert migrations(cell, uuid) == [("error", "node1", None)]
    cell.check()


def test_a_removal_that_arrives_after_the_rollback_does_not_power_the_guest_off(cell: Cell) -> None:
    uuid = boot(cell)
    for name in ("node2", "node3"):
        cell.drivers[name].rebuild = refuse
    cell.evacuate(uuid)
    while migrations(cell, uuid)[0][0] != "migrating":
        cell.bus.step()
    cell.bus.tell(guests_of(cell.agents))
    cell.bus.run()
    (late,) = (message for message in cell.bus.sent if isinstance(message, RemoveGuest))
    assert running(cell, uuid) == ["node1"]
    cell.bus.cast("node1", late)
    cell.bus.run()
    assert running(cell, uuid) == ["node1"]
    cell.check()


def refuse(*_args: object, **_kwargs: object) -> None:
    raise DriverError("The disk hangs.")


@pytest.mark.parametrize("back", ["node1", "node2"])
def test_a_destination_that_dies_in_turn(cell: Cell, back: str) -> None:
    uuid = boot(cell)
    cell.bus.cut_off = {"node1"}
    driver = cell.drivers["node2"]
    rebuild = driver.rebuild

    def rebuild_and_vanish(*args: object, **kwargs: object) -> None:
        rebuild(*args, **kwargs)
        cell.bus.cut_off = {"node1", "node2"}
        raise DriverError("The disk hangs.")

    driver.rebuild = rebuild_and_vanish
    cell.evacuate(uuid)
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.task_state, server.host) == (TaskState.REBUILD_SPAWNING, "node2")
    assert migrations(cell, uuid) == [("migrating", "node1", "node2")]
    cell.evacuate(uuid)
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.host) == (ACTIVE, "node3")
    assert migrations(cell, uuid) == [("done", "node2", "node3"), ("done", "node1", "node2")]
    assert room(cell) == {"node1": 1, "node2": 1, "node3": 1}
    cell.check()
    away = {"node1", "node2"} - {back}
    cell.bus.cut_off = {back}
    cell.reconnect()
    cell.bus.cut_off = away
    cell.bus.run()
    assert having(cell, uuid) == sorted({"node3", *away})
    assert room(cell) == dict.fromkeys(sorted({"node3", *away}), 1)
    cell.check()


def test_a_destination_that_hangs_is_left_once_its_agent_is_gone(cell: Cell) -> None:
    uuid = boot(cell)
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid)
    while not any(isinstance(message, RebuildGuest) for message in cell.bus.sent):
        cell.bus.step()
    assert cell.instance(uuid).host == "node2"
    cell.bus.cut_off = {"node1", "node2"}
    with pytest.raises(Conflict, match="being evacuated already"):
        cell.evacuate(uuid)
    cell.conductor.runner.ask_hosts(["node2"])
    cell.bus.run()
    assert (cell.instance(uuid).task_state, cell.instance(uuid).host) == (TaskState.REBUILD_SPAWNING, "node2")
    cell.evacuate(uuid)
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.task_state, server.host) == (ACTIVE, None, "node3")
    assert migrations(cell, uuid) == [("done", "node2", "node3"), ("done", "node1", "node2")]
    cell.check()
    cell.reconnect()
    cell.bus.run()
    assert having(cell, uuid) == ["node3"]
    assert room(cell) == {"node3": 1}
    cell.check()


def test_no_host_leaves_an_error_that_can_be_tried_again(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"), host("node2", vcpus=1))
    uuid = boot(cell)
    (other,) = cell.boot(force_host="node2")
    cell.bus.run()
    cell.bus.cut_off = {"node1"}
    cell.evacuate(uuid)
    cell.bus.run()
    server = cell.instance(uuid)
    assert (server.vm_state, server.task_state, server.host) == (ERROR, None, "node1")
    assert server.fault is not None
    assert server.fault.message.startswith("No valid host was found.")
    assert migrations(cell, uuid) == [("error", "node1", None)]
    cell.check()
    cell.delete(other)
    cell.bus.run()
    cell.evacuate(uuid)
    cell.bus.run()
    assert (cell.instance(uuid).vm_state, cell.instance(uuid).host) == (ACTIVE, "node2")
    cell.check()


def test_a_guest_that_a_move_was_taking_away_is_back_when_no_host_takes_the_server(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"), host("node2"))
    group = cell.add_group("affinity")
    uuid = boot(cell, group=group)
    boot(cell, group=group)
    cell.resize(uuid, stays=True)
    while not any(isinstance(message, MoveAway) for message in cell.bus.sent):
        assert cell.bus.step()
    cell.evacuate(uuid)
    cell.work_off()
    assert (cell.instance(uuid).vm_state, cell.instance(uuid).host) == (ERROR, "node1")
    assert running(cell, uuid) == ["node1"]
    cell.check()


def test_a_destination_that_returns_completes_the_evacuation(cell: Cell) -> None:
    uuid = boot(cell)
    cell.bus.cut_off = {"node1"}
    vanish_after(cell, "rebuild", "node2")
    cell.evacuate(uuid)
    cell.bus.run()
    cell.bus.cut_off.add("node1")
    cell.conductor.runner.ask_hosts(["node2"])
    cell.work_off()
    assert (cell.instance(uuid).task_state, cell.instance(uuid).host) == (TaskState.REBUILD_SPAWNING, "node2")
    come_back(cell, "node2")
    assert (cell.instance(uuid).vm_state, cell.instance(uuid).host) == (ACTIVE, "node2")
    assert having(cell, uuid) == ["node2"]
    cell.check()
