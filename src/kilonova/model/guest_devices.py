# SPDX-License-Identifier: Apache-2.0
"""NUMA cells, pinned CPUs and devices reserved for a guest, in the form that hypervisor drivers use."""

from dataclasses import dataclass

from kilonova.model.host_devices import DeviceShare, HostDevices


@dataclass(frozen=True, slots=True)
class GuestCell:
    """One NUMA cell of a guest.

    ``host_cell``: id of the host cell that provides the memory and the shared CPUs. ``vcpus``: vCPU numbers in the
    guest.
    ``pinning``: (vCPU, host CPU) pairs of the dedicated vCPUs. ``emulator``: host CPUs for the emulator threads.
    ``page_size_kib``: required memory page size in KiB, None for any.
    """

    host_cell: int
    vcpus: frozenset[int]
    memory_mib: int
    pinning: tuple[tuple[int, int], ...] = ()
    emulator: frozenset[int] = frozenset()
    page_size_kib: int | None = None


@dataclass(frozen=True, slots=True)
class GuestDevice:
    """A PCI device assigned to a guest. ``tags``: tags of the device's pool, as sorted (name, value) pairs."""

    address: str
    vendor_id: str
    product_id: str
    dev_type: str
    numa_node: int | None = None
    tags: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class GuestDevices:
    """NUMA cells and PCI devices reserved for a guest. Empty if the guest has no NUMA topology and no PCI requests.

    ``cells``: in the order of the guest's cells.
    """

    cells: tuple[GuestCell, ...] = ()
    devices: tuple[GuestDevice, ...] = ()

    @classmethod
    def of(cls, share: DeviceShare, host: HostDevices) -> "GuestDevices":
        """Convert a share of a host's cells and pools to the guest's cells and devices."""
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
