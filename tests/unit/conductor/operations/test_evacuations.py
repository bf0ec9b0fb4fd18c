# SPDX-License-Identifier: Apache-2.0
"""Evacuations from a host that is not the one that was found down."""

import pytest

from kilonova.errors import ConcurrentUpdate
from kilonova.model.instance import VmState
from support.cell import Cell, NewCell, asker, host


def left_for_node2(cell_of: NewCell) -> tuple[Cell, str]:
    """A server that was on node1 when a request looked at it."""
    cell = cell_of(host("node1"), host("node2"), host("node3"))
    (uuid,) = cell.boot(force_host="node1")
    cell.work_off()
    cell.live_migrate(uuid, "node2")
    cell.work_off()
    return cell, uuid


def test_it_is_not_evacuated_from_a_host_that_nobody_found_to_be_down(cell_of: NewCell) -> None:
    cell, uuid = left_for_node2(cell_of)
    with pytest.raises(ConcurrentUpdate, match="no longer on host node1"):
        cell.conductor.operations.evacuations.begin(uuid, "node1", asker("req-late"))
    cell.work_off()
    assert (cell.check(), cell.instance(uuid).host) == ({uuid: VmState.ACTIVE}, "node2")
