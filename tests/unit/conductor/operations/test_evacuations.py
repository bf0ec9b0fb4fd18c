# SPDX-License-Identifier: Apache-2.0
"""Evacuations from a host that is not the one that was found down."""

import pytest

from kilonova.errors import ConcurrentUpdate
from kilonova.model.instance import VmState
from support.cell import Running, asker


def test_it_is_not_evacuated_from_a_host_that_nobody_found_to_be_down(left_for_node2: Running) -> None:
    cell, uuid = left_for_node2
    with pytest.raises(ConcurrentUpdate, match="no longer on host node1"):
        cell.conductor.operations.evacuations.begin(uuid, "node1", asker("req-late"))
    cell.work_off()
    assert (cell.check(), cell.instance(uuid).host) == ({uuid: VmState.ACTIVE}, "node2")
