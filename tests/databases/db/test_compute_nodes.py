# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

from kilonova.db import compute_nodes
from kilonova.db.database import Database
from kilonova.mirror.mirror import Mirror
from kilonova.model.host import Capabilities, NodeReport
from support.cell import Cell
from support.device_cells import devices_of, machine
from support.mirrors import assert_equal


def test_cells_and_pools_go_with_their_hypervisor(start_machines: Callable[..., Cell]) -> None:
    cell = start_machines(machine("a"))
    assert cell.mirror.snapshot().devices_of(0).cells
    cell.database.write(lambda tx: compute_nodes.delete_of_host(tx, "a"))
    assert devices_of(cell) == []
    assert_equal(cell.mirror, Mirror.follow(cell.database))


def test_the_address_of_a_hypervisor_is_stored_in_its_canonical_spelling(database: Database) -> None:
    said = NodeReport("a", "a", Capabilities(), (), host_ip="2001:0DB8:0:0:0:0:0:91")
    (node,) = database.write(lambda tx: compute_nodes.report_all(tx, [said]))
    assert node.host_ip == "2001:db8::91"
