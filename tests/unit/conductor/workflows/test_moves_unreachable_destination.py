# SPDX-License-Identifier: Apache-2.0
"""The destination of a resize cannot be reached, and may run the guest: no other one is started before it is back."""

from collections.abc import Callable

import pytest

from kilonova.errors import DriverError
from kilonova.model.instance import PowerState, TaskState, VmState
from support.absent_hosts import come_back, lose, vanish_after, vanish_before
from support.cell import SMALL, Cell, NewCell, host


@pytest.fixture(params=["node1", "node2"], ids=["same host", "other host"])
def destination(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def cell(cell_of: NewCell, destination: str) -> Cell:
    """A server on node1, and one place where it can be resized to."""
    hosts = [host("node1")] if destination == "node1" else [host("node1"), host("node2")]
    cell: Cell = cell_of(*hosts)
    cell.boot(force_host="node1")
    cell.bus.run()
    return cell


def resize(cell: Cell, uuid: str, destination: str) -> None:
    cell.resize(uuid, stays=destination == "node1")


def guests_that_run(cell: Cell, uuid: str) -> list[str]:
    states = {name: driver.list_guests().get(uuid) for name, driver in cell.drivers.items()}
    return [name for name, state in states.items() if state is PowerState.RUNNING]


def test_a_revert_waits_for_it(cell: Cell, destination: str) -> None:
    (uuid,) = cell.drivers["node1"].list_guests()
    resize(cell, uuid, destination)
    cell.work_off()
    assert cell.instance(uuid).vm_state is VmState.RESIZED
    cell.bus.cut_off = {destination}
    cell.revert(uuid)
    cell.bus.run()
    assert guests_that_run(cell, uuid) == [destination]
    cell.bus.cut_off = set()
    cell.work_off()
    server = cell.instance(uuid)
    assert (server.vm_state, server.host, server.flavor) == (VmState.ACTIVE, "node1", SMALL)
    cell.check()


def test_a_resize_that_failed_waits_for_it(cell: Cell, destination: str) -> None:
    driver = cell.drivers[destination]
    finish_move = driver.finish_move

    def finish_and_vanish(*args: object, **kwargs: object) -> None:
        finish_move(*args, **kwargs)
        cell.bus.cut_off = {destination}
        raise DriverError("The disk hangs.")

    driver.finish_move = finish_and_vanish
    (uuid,) = cell.drivers["node1"].list_guests()
    resize(cell, uuid, destination)
    cell.bus.run()
    assert cell.bus.cut_off == {destination}
    assert guests_that_run(cell, uuid) == [destination]
    cell.bus.cut_off = set()
    cell.work_off()
    server = cell.instance(uuid)
    assert (server.vm_state, server.host, server.flavor) == (VmState.ERROR, "node1", SMALL)
    cell.check()


@pytest.mark.parametrize("vanish", [vanish_before, vanish_after])
def test_a_server_is_as_before_if_its_move_failed_because_the_destination_was_lost(
    cell: Cell, destination: str, vanish: Callable[[Cell, str, str], None]
) -> None:
    (uuid,) = cell.drivers["node1"].list_guests()
    vanish(cell, "finish_move", destination)
    resize(cell, uuid, destination)
    lose(cell, destination)
    assert cell.instance(uuid).task_state is TaskState.RESIZE_FINISH
    come_back(cell, destination)
    server = cell.instance(uuid)
    assert (server.vm_state, server.task_state, server.host) == (VmState.ACTIVE, None, "node1")
    assert (server.flavor, guests_that_run(cell, uuid)) == (SMALL, ["node1"])
    cell.check()
