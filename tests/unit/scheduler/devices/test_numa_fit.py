# SPDX-License-Identifier: Apache-2.0
from tests.unit.scheduler.small_devices import cell, gpus

from kilonova.model.host_devices import HostDevices
from kilonova.model.numa import CpuPolicy, InstanceCell, InstanceNuma, Ratios
from kilonova.model.pci import NumaPolicy, PciRequest
from kilonova.scheduler.devices.numa_fit import lay_out

GPU = PciRequest("gpu", 1, ((("vendor_id", "10de"),),), NumaPolicy.REQUIRED)


def wanted(*pinned: int, memory_mib: int = 512) -> InstanceNuma:
    """Return a topology with a cell for each number of dedicated vCPUs."""
    cells = tuple(
        InstanceCell(index, frozenset(), frozenset(range(count)), memory_mib) for index, count in enumerate(pinned)
    )
    return InstanceNuma(cells, CpuPolicy.DEDICATED)


def test_cells_of_a_server_go_to_the_host_cells_that_can_take_them() -> None:
    host = HostDevices((cell(0, pinned=frozenset(range(6))), cell(1)))
    share = lay_out(host, wanted(8, 2))
    assert share is not None
    assert [part.cell for part in share.cells] == [1, 0]
    assert lay_out(host, wanted(8, 3)) is None


def test_an_empty_cell_comes_before_a_busy_one() -> None:
    host = HostDevices((cell(0, pinned=frozenset({0, 1})), cell(1)))
    share = lay_out(host, wanted(2))
    assert share is not None
    assert [part.cell for part in share.cells] == [1]


def test_a_required_device_moves_the_server_to_a_cell_near_it() -> None:
    host = HostDevices((cell(0), cell(1, pinned=frozenset(range(10, 16)))), (gpus(0, 1, 1),))
    share = lay_out(host, wanted(2), [GPU])
    assert share is not None
    assert ([part.cell for part in share.cells], share.devices) == ([1], ((0, 1),))
    assert lay_out(host, wanted(3), [GPU]) is None, "the cell of the device has two CPUs left"


def test_a_share_keeps_the_ratios_that_bound_it() -> None:
    share = lay_out(HostDevices((cell(0),)), wanted(1), ratios=Ratios(4.0, 1.5))
    assert share is not None
    assert share.ratios == Ratios(4.0, 1.5)
    assert lay_out(HostDevices((cell(0),)), wanted(1, memory_mib=8193), ratios=Ratios(4.0, 9.0)) is None
