# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

from kilonova.db import compute_nodes
from kilonova.mirror.mirror import Mirror
from support.cell import Cell
from support.device_cells import devices_of, machine
from support.mirrors import assert_equal


def test_cells_and_pools_go_with_their_hypervisor(start_machines: Callable[..., Cell]) -> None:
    cell = start_machines(machine("a"))
    assert cell.mirror.snapshot().devices_of(0).cells
    cell.database.write(lambda tx: compute_nodes.delete_of_host(tx, "a"))
    assert devices_of(cell) == []
    assert_equal(cell.mirror, Mirror.follow(cell.database))
