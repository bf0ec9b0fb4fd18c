# SPDX-License-Identifier: Apache-2.0
"""A resize that stays on its host: a host that cannot be reached then still has the new guest when it comes back."""

import pytest

from kilonova.errors import DriverError
from kilonova.model.instance import VmState
from support.cell import SMALL, Cell, NewCell, host


@pytest.fixture
def cell(cell_of: NewCell) -> Cell:
    """One host, and a server that runs there."""
    cell: Cell = cell_of(host("node1"))
    cell.boot()
    cell.bus.run()
    return cell


def test_a_revert_waits_for_the_host_that_has_both_guests(cell: Cell) -> None:
    (uuid,) = cell.drivers["node1"].list_guests()
    cell.resize(uuid, stays=True)
    cell.work_off()
    assert cell.instance(uuid).vm_state is VmState.RESIZED
    cell.bus.cut_off = {"node1"}
    cell.revert(uuid)
    cell.bus.run()
    cell.bus.cut_off = set()
    cell.work_off()
    server = cell.instance(uuid)
    assert (server.vm_state, server.host, server.flavor) == (VmState.ACTIVE, "node1", SMALL)
    cell.check()


def test_a_failed_resize_waits_for_the_host_that_has_both_guests(cell: Cell) -> None:
    driver = cell.drivers["node1"]
    finish_move = driver.finish_move

    def finish_and_vanish(*args: object, **kwargs: object) -> None:
        finish_move(*args, **kwargs)
        cell.bus.cut_off = {"node1"}
        raise DriverError("The disk hangs.")

    driver.finish_move = finish_and_vanish
    (uuid,) = driver.list_guests()
    cell.resize(uuid, stays=True)
    cell.bus.run()
    assert cell.bus.cut_off == {"node1"}
    cell.bus.cut_off = set()
    cell.work_off()
    server = cell.instance(uuid)
    assert (server.vm_state, server.host, server.flavor) == (VmState.ERROR, "node1", SMALL)
    cell.check()
