# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

from kilonova.compute.resource_timer import ResourceTimer
from support.cell import NewCell, host


def test_what_a_host_gains_is_there_for_the_next_decision(cell_of: NewCell) -> None:
    cell = cell_of(host("node1", vcpus=1))
    cell.boot()
    cell.bus.run()
    timer = ResourceTimer(cell.bus, cell.agents, lambda: cell.conductor.owner, 3600)
    timer.start()
    driver = cell.drivers["node1"]
    driver.hypervisor.host = replace(driver.hypervisor.host, vcpus=2)
    timer.look()
    timer.stop()
    cell.boot()
    cell.bus.run()
    assert list(cell.check().values()) == ["active", "active"]
