# SPDX-License-Identifier: Apache-2.0
"""Deletes of servers that two hosts have, one of which cannot be reached for a while."""

from typing import Any

import pytest

from support.cell import Cell, NewCell, host
from support.processes import revive


@pytest.fixture
def cell(cell_of: NewCell) -> Cell:
    cell: Cell = cell_of(host("node1"), host("node2"))
    (uuid,) = cell.boot(force_host="node1")
    cell.bus.run()
    cell.resize(uuid)
    cell.work_off()
    return cell


@pytest.mark.parametrize("away", ["node1", "node2"])
def test_the_host_comes_back_while_the_other_one_is_asked(cell: Cell, away: str) -> None:
    """Then the delete ends, and the guest of the host that was away goes by the record of it."""
    (uuid,) = cell.drivers["node2"].list_guests()
    cell.bus.cut_off = {away}
    destroyed = {name: driver.destroy for name, driver in cell.drivers.items()}

    def come_back(name: str, instance_uuid: str) -> Any:
        cell.bus.cut_off = set()
        cell.database.write(lambda tx: revive(tx, away))
        return destroyed[name](instance_uuid)

    for name, driver in cell.drivers.items():
        driver.destroy = lambda instance_uuid, name=name: come_back(name, instance_uuid)
    cell.delete(uuid)
    cell.work_off()
    assert cell.find(uuid) is None
    cell.announce()
    cell.work_off()
    cell.check()
