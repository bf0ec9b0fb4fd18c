# SPDX-License-Identifier: Apache-2.0
"""Reference definition of whether a server fits the NUMA cells and PCI devices of a host, by brute force."""

from collections.abc import Collection, Sequence
from itertools import permutations

from kilonova.errors import InvalidRequest
from kilonova.model.host_devices import HostDevices
from kilonova.model.numa import CpuPolicy, HostCell, InstanceCell, InstanceNuma, Ratios, ThreadPolicy
from kilonova.model.pci import NumaPolicy, PciPool, PciRequest
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.devices.pci_request import pci_requests, read_aliases
from kilonova.scheduler.numa_request import numa_request
from support.device_clouds import ALIASES


def fits_cells(host: HostDevices, ratios: Ratios, spec: RequestSpec) -> bool:
    """Reference definition of NUMATopologyFilter."""
    try:
        wanted = numa_request(spec.flavor, spec.image)
        if wanted is None:
            return True
        requests = pci_requests(spec.flavor, spec.image, read_aliases(ALIASES))
    except InvalidRequest:
        return False
    return any(
        all(
            cell_fits(cell, each, wanted, ratios, extra=int(wanted.isolate_emulator and index == 0))
            for index, (cell, each) in enumerate(zip(chosen, wanted.cells, strict=True))
        )
        and devices_suffice(host, requests, {cell.id for cell in chosen})
        for chosen in permutations(host.cells, len(wanted.cells))
    )


def has_devices(host: HostDevices, spec: RequestSpec) -> bool:
    """Reference definition of PciPassthroughFilter."""
    try:
        requests = pci_requests(spec.flavor, spec.image, read_aliases(ALIASES))
    except InvalidRequest:
        return False
    return devices_suffice(host, requests, None)


def cell_fits(cell: HostCell, wanted: InstanceCell, numa: InstanceNuma, ratios: Ratios, *, extra: int) -> bool:
    pins = numa.cpu_policy is not CpuPolicy.SHARED
    if not memory_fits(cell, wanted.memory_mib, numa.page_size, pins=pins):
        return False
    if len(wanted.cpuset) > len(cell.cpuset):
        return False
    if numa.cpu_policy is not CpuPolicy.DEDICATED:
        if cell.used_cpus + len(wanted.cpuset) > ratios.cpu * len(cell.cpuset):
            return False
        if cell.used_memory_mib + wanted.memory_mib > ratios.memory * cell.memory_mib:
            return False
    return not pins or pins_fit(cell, len(wanted.pcpuset), extra, numa.thread_policy)


def memory_fits(cell: HostCell, memory_mib: int, size: object, *, pins: bool) -> bool:
    def held_by(index: int, *, free: bool) -> bool:
        pages = cell.pages[index]
        count = pages.total - pages.reserved - pages.used if free else pages.total
        return memory_mib * 1024 % pages.size_kib == 0 and memory_mib * 1024 <= count * pages.size_kib

    if size is None:
        if cell.pages:
            return held_by(0, free=pins)
        return memory_mib <= cell.memory_mib - (cell.used_memory_mib if pins else 0)
    every = range(len(cell.pages))
    usable = {"small": [0][: len(cell.pages)], "large": every[1:], "any": every}.get(
        str(size), [index for index in every if cell.pages[index].size_kib == size]
    )
    return any(held_by(index, free=True) for index in usable)


def pins_fit(cell: HostCell, count: int, extra: int, policy: ThreadPolicy | None) -> bool:
    left = cell.pcpuset - cell.pinned
    cores = list(cell.siblings)
    cores += [frozenset({cpu}) for cpu in cell.cpuset | cell.pcpuset if not any(cpu in core for core in cores)]
    free = [len(core & left) for core in cores]
    widest = max((len(core) for core in cell.siblings), default=1)
    if sum(free) < count + extra:
        return False
    if policy is ThreadPolicy.REQUIRE:
        return count == 0 or any(threads * sum(each >= threads for each in free) >= count for threads in (2, 3, 4))
    if policy is ThreadPolicy.ISOLATE:
        return (widest == 1 or cell.cpuset == cell.pcpuset) and sum(each == widest for each in free) >= count + extra
    return True


def devices_suffice(host: HostDevices, requests: Sequence[PciRequest], near: Collection[int] | None) -> bool:
    units = [request for request in requests for _ in range(request.count)]

    def give(index: int, free: tuple[int, ...]) -> bool:
        return index == len(units) or any(
            count > 0
            and usable(pool, units[index], host, near)
            and give(index + 1, (*free[:at], count - 1, *free[at + 1 :]))
            for at, (pool, count) in enumerate(zip(host.pools, free, strict=True))
        )

    return give(0, tuple(pool.total - pool.used for pool in host.pools))


def usable(pool: PciPool, request: PciRequest, host: HostDevices, near: Collection[int] | None) -> bool:
    if dict(pool.tags).get("remote_managed") == "true":
        return False
    specs = [dict(spec) for spec in request.specs]
    if pool.dev_type == "type-PF" and all(spec.get("dev_type") != "type-PF" for spec in specs):
        return False
    alike = [
        spec
        for spec in specs
        if (spec["vendor_id"], spec["product_id"]) == (pool.vendor_id, pool.product_id)
        and spec.get("dev_type", pool.dev_type) == pool.dev_type
    ]
    if not alike or near is None or pool.numa_node in near:
        return bool(alike)
    if request.numa_policy is NumaPolicy.SOCKET:
        socket_of = {cell.id: cell.socket for cell in host.cells}
        known = None not in socket_of.values() and pool.numa_node in socket_of
        return known and socket_of[pool.numa_node] in {socket_of[cell] for cell in near}
    if request.numa_policy is NumaPolicy.LEGACY:
        return pool.numa_node is None
    return request.numa_policy is NumaPolicy.PREFERRED
