# SPDX-License-Identifier: Apache-2.0
"""NUMA cells, pinned CPUs and devices reserved for a guest, in the form that hypervisor drivers use."""

from kilonova.model.host_devices import DeviceShare, HostDevices
from kilonova.model.pci import NO_CARD, CardFacts, PciPool
from kilonova.records import dataclass


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
    """A PCI device assigned to a guest. ``tags``: tags of the device's pool, as sorted (name, value) pairs.

    ``card``: what the host knows about a function of a network card.
    """

    address: str
    vendor_id: str
    product_id: str
    dev_type: str
    numa_node: int | None = None
    tags: tuple[tuple[str, str], ...] = ()
    card: CardFacts = NO_CARD


@dataclass(frozen=True, slots=True)
class GuestDevices:
    """NUMA cells and PCI devices reserved for a guest. Empty if the guest has no NUMA topology and no PCI requests.

    ``cells``: in the order of the guest's cells.
    """

    cells: tuple[GuestCell, ...] = ()
    devices: tuple[GuestDevice, ...] = ()

    @classmethod
    def of(cls, share: DeviceShare, host: HostDevices) -> "GuestDevices":
        """Convert a share of a host's cells and pools to the guest's cells and devices, without those for ports."""
        cells = tuple(
            GuestCell(part.cell, part.vcpus, part.memory_mib, part.pinning, part.emulator, part.page_size_kib)
            for part in share.cells
        )
        found = devices_of(share, host)
        devices = tuple(
            device
            for number, of_pool in found.items()
            for device in of_pool[sum(pool == number for _, pool in share.ports) :]
        )
        return cls(cells, devices)


def devices_of_ports(share: DeviceShare, host: HostDevices) -> dict[str, GuestDevice]:
    """Return port id → device of the port, for the devices whose addresses are known."""
    left = {number: list(devices) for number, devices in devices_of(share, host).items()}
    return {port_id: left[number].pop(0) for port_id, number in share.ports if left.get(number)}


def devices_of(share: DeviceShare, host: HostDevices) -> dict[int, tuple[GuestDevice, ...]]:
    """Return pool number → devices of a share, in the order of their addresses."""
    pools = {pool.number: pool for pool in host.pools}
    return {
        number: tuple(_device(pool, address) for address in addresses)
        for number, addresses in share.addresses
        if (pool := pools.get(number)) is not None
    }


def _device(pool: PciPool, address: str) -> GuestDevice:
    facts = pool.vendor_id, pool.product_id, pool.dev_type, pool.numa_node, pool.tags
    return GuestDevice(address, *facts, dict(pool.cards).get(address, NO_CARD))
