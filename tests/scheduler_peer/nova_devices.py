# SPDX-License-Identifier: Apache-2.0
"""NUMA cells, PCI pools, and the NUMA and PCI requests of flavors and images, as Nova's objects."""

from typing import Any

from nova import exception, objects
from nova.pci import request as pci_request
from nova.pci.stats import PciDeviceStats
from nova.virt import hardware

from kilonova.model.host_devices import HostDevices
from kilonova.model.numa import HostCell

REFUSALS = (exception.NovaException, ValueError)
"""Exceptions with which Nova rejects a request; unreadable numbers raise ValueError."""


def topology(host: HostDevices) -> Any:
    """Return the NUMA topology of a host, or None for a host that reports none."""
    return objects.NUMATopology(cells=[_cell(each) for each in host.cells]) if host.cells else None


def _cell(cell: HostCell) -> Any:
    return objects.NUMACell(
        id=cell.id,
        cpuset=set(cell.cpuset),
        pcpuset=set(cell.pcpuset),
        memory=cell.memory_mib,
        cpu_usage=cell.used_cpus,
        memory_usage=cell.used_memory_mib,
        pinned_cpus=set(cell.pinned),
        siblings=[set(core) for core in cell.cores],
        mempages=[
            objects.NUMAPagesTopology(size_kb=each.size_kib, total=each.total, used=each.used, reserved=each.reserved)
            for each in cell.pages
        ],
        socket=cell.socket,
    )


def pci_stats(host: HostDevices) -> PciDeviceStats:
    """Return the PCI pools of a host. Nova drops pools without free devices."""
    pools = [
        objects.PciDevicePool(
            vendor_id=pool.vendor_id,
            product_id=pool.product_id,
            numa_node=pool.numa_node,
            count=pool.free,
            tags={"dev_type": pool.dev_type, **dict(pool.tags)},
        )
        for pool in host.pools
        if pool.free
    ]
    return PciDeviceStats(topology(host), objects.PciDevicePoolList(objects=pools))


def numa_topology(flavor: Any, image: Any) -> Any:
    """Return the topology that Nova reads from a flavor and an image. Raises: one of ``REFUSALS``."""
    return hardware.numa_get_constraints(flavor, image)


def pci_requests(flavor: Any, image: Any) -> Any:
    """Return the PCI requests that Nova reads from a flavor and an image. Raises: one of ``REFUSALS``."""
    policy = hardware.get_pci_numa_policy_constraint(flavor, image)
    return pci_request.get_pci_requests_from_flavor(flavor, affinity_policy=policy)


def forget_aliases() -> None:
    """Make Nova read ``[pci] alias`` again."""
    pci_request.get_alias_from_config.cache_clear()
