# SPDX-License-Identifier: Apache-2.0
"""Cells with dedicated CPUs, huge pages and GPUs, and the flavors that claim them."""

from kilonova.db import host_devices
from kilonova.model.flavor import Flavor
from kilonova.model.host_devices import DeviceShare, HostDevices
from kilonova.model.numa import CellShare
from kilonova.scenario.model import SimulatedCell, SimulatedHost, SimulatedPool
from kilonova.scheduler.settings import DEFAULT_FILTERS, SchedulerConfig
from support.cell import Cell, host
from support.world import check_books

CONFIG = SchedulerConfig(
    enabled_filters=(*DEFAULT_FILTERS, "NUMATopologyFilter", "PciPassthroughFilter"),
    pci_alias=('{"name": "gpu", "vendor_id": "10de", "product_id": "1db4"}',),
)
PINNED = Flavor("p", "pinned", 2, 512, 1, extra_specs={"hw:cpu_policy": "dedicated"})
GPU = Flavor("g", "gpu", 1, 512, 1, extra_specs={"pci_passthrough:alias": "gpu:1"})
SHARE = DeviceShare((CellShare(0, 512, pinned=frozenset({2, 3}), shares_cpus=False),), ((0, 1),))


def machine(name: str, **facts: object) -> SimulatedHost:
    """Return a host with two cells and 3 GPUs near the second.

    Each cell has 4 dedicated and 8 shared CPUs, and 1 GiB in huge pages.
    """
    numa = tuple(
        SimulatedCell(2048, cpus=f"{at}-{at + 7}", dedicated=f"{at + 8}-{at + 11}", pages={"4": 262144, "2048": 512})
        for at in (0, 16)
    )
    return host(name, memory_mib=16384, numa=numa, pci=(SimulatedPool("10de", "1db4", 3, 1),), **facts)


def devices_of(cell: Cell) -> list[HostDevices]:
    """Return the devices of every host; the books of the whole database are checked first."""
    with cell.database.read() as connection:
        check_books(connection)
        return list(host_devices.list_all(connection).values())
