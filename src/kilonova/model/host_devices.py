# SPDX-License-Identifier: Apache-2.0
"""NUMA cells and PCI pools of a host with their usage, and the share of them that one server uses."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from itertools import islice

from kilonova.model.numa import CellShare, HostCell, Pages, Ratios
from kilonova.model.pci import PciPool
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """The share of a host's NUMA cells and PCI pools that one server uses.

    ``devices``: (pool number, number of devices) pairs. ``ratios``: allocation ratios for the usage of the cells.
    ``addresses``: (pool number, device addresses) pairs, set by the claim if the host reports addresses.
    ``ports``: (port id, pool number) pairs of the devices for ports. The first addresses of a pool are for its ports.
    """

    cells: tuple[CellShare, ...] = ()
    devices: tuple[tuple[int, int], ...] = ()
    ratios: Ratios = field(default_factory=Ratios)
    addresses: tuple[tuple[int, tuple[str, ...]], ...] = ()
    ports: tuple[tuple[str, int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.cells or self.devices)

    def has_all_addresses(self, number: int) -> bool:
        """Tell whether the addresses of all devices of a pool are known."""
        return len(dict(self.addresses).get(number, ())) == dict(self.devices).get(number, 0)

    def with_port(self, port_id: str, number: int, address: str | None) -> "DeviceShare":
        """Return the share with one more device, for a port. ``number``: its pool; ``address``: None if not known."""
        devices, addresses = Counter(dict(self.devices)), dict(self.addresses)
        if address is not None:
            held, place = addresses.get(number, ()), self._of_ports(number, self.ports)
            addresses[number] = (*held[:place], address, *held[place:])
        devices[number] += 1
        return self._changed(devices, addresses, (*self.ports, (port_id, number)))

    def without_port(self, port_id: str) -> "DeviceShare":
        """Return the share without the device of a port; the share itself if the port has none."""
        for index, (each, number) in enumerate(self.ports):
            if each == port_id:
                devices, addresses = Counter(dict(self.devices)), dict(self.addresses)
                held, place = addresses.get(number, ()), self._of_ports(number, self.ports[:index])
                addresses[number] = (*held[:place], *held[place + 1 :])
                devices[number] -= 1
                return self._changed(devices, addresses, (*self.ports[:index], *self.ports[index + 1 :]))
        return self

    @staticmethod
    def _of_ports(number: int, ports: Iterable[tuple[str, int]]) -> int:
        return sum(pool == number for _, pool in ports)

    def _changed(
        self, devices: Mapping[int, int], addresses: Mapping[int, tuple[str, ...]], ports: tuple[tuple[str, int], ...]
    ) -> "DeviceShare":
        return replace(
            self,
            devices=tuple(sorted((number, count) for number, count in devices.items() if count)),
            addresses=tuple(sorted((number, which) for number, which in addresses.items() if which)),
            ports=ports,
        )


@dataclass(frozen=True, slots=True)
class HostDevices:
    """NUMA cells and PCI pools of one host. Cells are sorted by id, pools by number."""

    cells: tuple[HostCell, ...] = ()
    pools: tuple[PciPool, ...] = ()

    def can_give(self, share: DeviceShare) -> bool:
        """Tell whether all CPUs, memory and devices in ``share`` exist on the host and are free."""
        cells = {cell.id: cell for cell in self.cells}
        free = {pool.number: pool.free for pool in self.pools}
        return all(
            part.cell in cells and _cell_can_give(cells[part.cell], part, share.ratios) for part in share.cells
        ) and all(count <= free.get(number, 0) for number, count in share.devices)

    def taking(self, share: DeviceShare) -> "HostDevices":
        """Return the host with ``share`` added to its usage, without checking that it fits."""
        return self._moved([share], 1)

    def without(self, share: DeviceShare) -> "HostDevices":
        """Return the host with ``share`` subtracted from its usage. Cells and pools that do not exist are ignored."""
        return self._moved([share], -1)

    def used_by(self, shares: Iterable[DeviceShare]) -> "HostDevices":
        """Return the host with its usage replaced by the sum of ``shares``."""
        return self._idle()._moved(shares, 1)  # noqa: SLF001  its own kind

    def with_addresses(self, share: DeviceShare, taken: Collection[str]) -> DeviceShare:
        """Return the share with device addresses: for each pool, the first addresses that are not in ``taken``."""
        pools = {pool.number: pool for pool in self.pools}
        chosen = dict(share.addresses)
        for number, count in share.devices:
            if number in pools and number not in chosen:
                free = (address for address in pools[number].addresses if address not in taken)
                if addresses := tuple(islice(free, count)):
                    chosen[number] = addresses
        return replace(share, addresses=tuple(sorted(chosen.items())))

    def _idle(self) -> "HostDevices":
        return HostDevices(
            tuple(
                replace(
                    cell,
                    used_cpus=0,
                    used_memory_mib=0,
                    pinned=frozenset(),
                    pages=tuple(replace(each, used=0) for each in cell.pages),
                )
                for cell in self.cells
            ),
            tuple(replace(pool, used=0) for pool in self.pools),
        )

    def _moved(self, shares: Iterable[DeviceShare], sign: int) -> "HostDevices":
        cells = {cell.id: cell for cell in self.cells}
        taken: Counter[int] = Counter()
        for share in shares:
            for part in share.cells:
                if part.cell in cells:
                    cells[part.cell] = _cell_after(cells[part.cell], part, sign)
            for number, count in share.devices:
                taken[number] += sign * count
        pools: Mapping[int, PciPool] = {
            pool.number: replace(pool, used=max(0, pool.used + taken[pool.number])) if taken[pool.number] else pool
            for pool in self.pools
        }
        return HostDevices(tuple(cells.values()), tuple(pools.values()))


NOTHING = HostDevices()
"""A host that reports neither NUMA cells nor PCI devices."""


def _cell_can_give(cell: HostCell, share: CellShare, ratios: Ratios) -> bool:
    if not share.pinned <= cell.free_pcpus:
        return False
    if share.firm_memory and cell.free_memory_mib < share.memory_mib:
        return False
    if share.firm_pages and share.pages > _pages_of(cell, share.page_size_kib).free:
        return False
    return not share.shares_cpus or (
        cell.used_cpus + share.cpus <= len(cell.cpuset) * ratios.cpu
        and cell.used_memory_mib + share.memory_mib <= cell.memory_mib * ratios.memory
    )


def _pages_of(cell: HostCell, size_kib: int | None) -> Pages:
    return next((pages for pages in cell.pages if pages.size_kib == size_kib), Pages(size_kib or 0, 0))


def _cell_after(cell: HostCell, share: CellShare, sign: int) -> HostCell:
    return replace(
        cell,
        used_cpus=max(0, cell.used_cpus + sign * share.cpus),
        used_memory_mib=max(0, cell.used_memory_mib + sign * share.memory_mib),
        pinned=cell.pinned | share.pinned if sign > 0 else cell.pinned - share.pinned,
        pages=tuple(
            replace(pages, used=max(0, pages.used + sign * share.pages))
            if share.pages and pages.size_kib == share.page_size_kib
            else pages
            for pages in cell.pages
        ),
    )
