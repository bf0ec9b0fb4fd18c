# SPDX-License-Identifier: Apache-2.0
"""The periodic count of stray ports acts only with a lease, and tells in the log what it has found."""

import pytest

from kilonova.conductor.periodic.stray_port_counts import StrayPortCounts
from kilonova.errors import Unavailable
from kilonova.identifiers import new_uuid
from support.cell import Cell, NewCell, host
from support.fake_neutron import FakeNeutron, Fault


@pytest.fixture
def neutron() -> FakeNeutron:
    return FakeNeutron()


@pytest.fixture
def cell(cell_of: NewCell, neutron: FakeNeutron) -> Cell:
    return cell_of(host("node1"), neutron=neutron)


def task(cell: Cell, *, may_act: bool = True, interval_s: float = 100.0) -> StrayPortCounts:
    return StrayPortCounts(cell.conductor.operations.stray_ports, "me", interval_s, lambda: may_act, pause_s=0)


def test_strays_are_counted_and_logged(cell: Cell, neutron: FakeNeutron, caplog: pytest.LogCaptureFixture) -> None:
    neutron.make_port(neutron.make_network(), device_id=new_uuid(), device_owner="compute:nova")
    assert not task(cell, may_act=False).look()
    assert task(cell).look()
    assert "1 stray ports" in caplog.text
    assert not task(cell).look()


def test_an_outage_of_the_network_service_leaves_the_count_to_a_later_run(cell: Cell, neutron: FakeNeutron) -> None:
    neutron.faults.plan("GET ports", Fault.LOST)
    with pytest.raises(Unavailable):
        task(cell).look()
    assert not task(cell).look()
    assert cell.conductor.operations.stray_ports.numbers() is None


def test_the_interval_can_be_zero(cell: Cell) -> None:
    assert task(cell, interval_s=0).periodic_threads == ()
    (thread,) = task(cell, interval_s=100).periodic_threads
    assert thread.name == "stray ports"
