# SPDX-License-Identifier: Apache-2.0
"""The cells, pinned CPUs and devices that were reserved for a guest, as its hypervisor is told of them."""

from dataclasses import dataclass

from kilonova.model.host_devices import DeviceShare, HostDevices


@dataclass(frozen=True, slots=True)
class GuestCell:
    """One NUMA cell of a guest, in the order of the guest's cells.

    ``host_cell``: where its memory is and its shared vCPUs float. ``vcpus``: by their numbers in the guest.
    ``pinning``: (vCPU, host CPU) pairs of those that are dedicated. ``emulator``: host CPUs for what is not a vCPU.
    ``page_size_kib``: of the pages that its memory has to be made of, None when any will do.
    """

    host_cell: int
    vcpus: frozenset[int]
    memory_mib: int
    pinning: tuple[tuple[int, int], ...] = ()
    emulator: frozenset[int] = frozenset()
    page_size_kib: int | None = None


@dataclass(frozen=True, slots=True)
class GuestDevice:
    """One PCI device that a guest gets. ``tags``: sorted (name, value) pairs of its pool."""

    address: str
    vendor_id: str
    product_id: str
    dev_type: str
    numa_node: int | None = None
    tags: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class GuestDevices:
    """Everything that was reserved for one guest beside amounts. Empty for a guest that asks for nothing special."""

    cells: tuple[GuestCell, ...] = ()
    devices: tuple[GuestDevice, ...] = ()

    @classmethod
    def of(cls, share: DeviceShare, host: HostDevices) -> "GuestDevices":
        """Return what a share of a host is for the guest."""
        cells = tuple(
            GuestCell(part.cell, part.vcpus, part.memory_mib, part.pinning, part.emulator, part.page_size_kib)
            for part in share.cells
        )
        pools = {pool.number: pool for pool in host.pools}
        devices = tuple(
            GuestDevice(address, pool.vendor_id, pool.product_id, pool.dev_type, pool.numa_node, pool.tags)
            for number, addresses in share.addresses
            if (pool := pools.get(number)) is not None
            for address in addresses
        )
        return cls(cells, devices)
