# SPDX-License-Identifier: Apache-2.0
"""Placement of a server's NUMA cells on the cells of a host, together with the server's PCI devices.

Each guest cell needs a host cell of its own. The fit is computed for each pair of a guest cell and a host cell; then a
bipartite matching assigns the cells. If PCI devices must be near the cells, each set of host cells is tried.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, combinations

from kilonova.model.host_devices import DeviceShare, HostDevices
from kilonova.model.numa import (
    CellShare,
    CpuPolicy,
    HostCell,
    InstanceCell,
    InstanceNuma,
    PageRequest,
    Pages,
    Ratios,
    ThreadPolicy,
)
from kilonova.model.pci import NumaPolicy, PciRequest
from kilonova.placement.assignment import assign
from kilonova.scheduler.devices.pci_fit import Served, serve
from kilonova.scheduler.devices.port_requests import ANYWHERE, NetworkAffinity

_KIB_PER_MIB = 1024

Fits = Sequence[Sequence[CellShare | None]]
"""For each guest cell and each host cell: the CPUs and memory that the guest cell would take, or None if none fit."""


def lay_out(
    host: HostDevices,
    wanted: InstanceNuma,
    requests: Sequence[PciRequest] = (),
    ratios: Ratios | None = None,
    networks: NetworkAffinity = ANYWHERE,
) -> DeviceShare | None:
    """Return the cells, CPUs and devices that a server would take on ``host``, or None if the server does not fit.

    Host cells with more free CPUs and memory are preferred. A server without PCI requests uses cells near PCI devices
    only if no other cells fit.
    ``ratios``: the host's allocation ratios, which limit shared CPUs and memory.
    ``networks``: networks whose cards must be near the cells.

    Source: spec SCHEDULER §3 #21; Nova admin guide, "CPU topologies".
    """
    bounds = ratios or Ratios()
    bound_to_cards = networks.matters_on(host.cells)
    if len(host.cells) < len(wanted.cells) or serve(host.pools, requests) is None:
        return None
    cells = _in_order_of_preference(host, wanted, wants_devices=bool(requests))
    fits = [
        [_cell_share(cell, each, wanted, bounds, extra=int(wanted.isolate_emulator and not index)) for cell in cells]
        for index, each in enumerate(wanted.cells)
    ]
    anywhere = not bound_to_cards and all(request.numa_policy is NumaPolicy.PREFERRED for request in requests)
    for allowed in _sets_of_cells(len(cells), len(wanted.cells), all_at_once=anywhere):
        if bound_to_cards and not networks.allows(host.cells, {cells[column].id for column in allowed}):
            continue
        chosen = _match(fits, allowed)
        if chosen is None:
            continue
        shares = [share for row, column in enumerate(chosen) if (share := fits[row][column]) is not None]
        near = {share.cell for share in shares}
        served = serve(host.pools, requests, host.cells, near) if requests else Served()
        if served is not None:
            return DeviceShare(tuple(shares), served.devices, bounds, ports=served.ports)
        if anywhere:
            return None
    return None


def _sets_of_cells(host: int, wanted: int, *, all_at_once: bool) -> Iterator[Sequence[int]]:
    if all_at_once:
        return iter([range(host)])
    return combinations(range(host), wanted)


def _in_order_of_preference(host: HostDevices, wanted: InstanceNuma, *, wants_devices: bool) -> list[HostCell]:
    if len(host.cells) == len(wanted.cells):
        return list(host.cells)
    devices: dict[int | None, int] = {}
    for pool in host.pools:
        devices[pool.numa_node] = devices.get(pool.numa_node, 0) + pool.free

    def rank(cell: HostCell) -> tuple[int, int, int]:
        near = devices.get(cell.id, 0)
        busy = -len(cell.free_pcpus) if wanted.pins else cell.used_cpus
        return (-near if wants_devices else near), busy, -cell.free_memory_mib

    return sorted(host.cells, key=rank)


def _match(fits: Fits, allowed: Sequence[int]) -> list[int] | None:
    """Assign a fitting host cell of ``allowed`` to each guest cell, or return None. Earlier cells are preferred."""
    usable = [[column for column in allowed if row[column] is not None] for row in fits]
    given = assign(usable, stay_first=True)
    return None if given is None else [column for (column,) in given]


def _cell_share(
    cell: HostCell, wanted: InstanceCell, numa: InstanceNuma, ratios: Ratios, *, extra: int
) -> CellShare | None:
    """Return the CPUs and memory that a guest cell takes on a host cell, or None if the guest cell does not fit.

    ``extra``: number of additional dedicated CPUs for the emulator.
    """
    share = _memory_share(cell, wanted, numa)
    if share is None or len(wanted.cpuset) > len(cell.cpuset):
        return None
    if numa.cpu_policy is not CpuPolicy.DEDICATED:
        cpus, memory = cell.used_cpus + len(wanted.cpuset), cell.used_memory_mib + wanted.memory_mib
        if cpus > len(cell.cpuset) * ratios.cpu or memory > cell.memory_mib * ratios.memory:
            return None
    if not numa.pins:
        return replace(share, cpus=len(wanted.cpuset))
    pins = _pins(cell, len(wanted.pcpuset), extra, numa.thread_policy)
    if pins is None:
        return None
    vcpus, emulator = pins
    taken = frozenset(chain(vcpus, emulator))
    if numa.thread_policy is ThreadPolicy.ISOLATE:
        taken = frozenset().union(*(core for core in cell.cores if core & taken)) & cell.pcpuset
    return replace(
        share,
        cpus=len(wanted.cpuset),
        pinned=taken,
        pinning=tuple(zip(sorted(wanted.pcpuset), vcpus, strict=True)),
        emulator=frozenset(emulator),
    )


def _memory_share(cell: HostCell, wanted: InstanceCell, numa: InstanceNuma) -> CellShare | None:
    """Return the memory that a guest cell takes on a host cell, or None if the memory does not suffice.

    If a page size is requested, the host cell must have enough free pages of this size. Otherwise the guest cell must
    not exceed the total memory of the host cell or, with dedicated CPUs, the free memory of the host cell.
    """
    share = CellShare(
        cell.id,
        wanted.memory_mib,
        shares_cpus=numa.cpu_policy is not CpuPolicy.DEDICATED,
        vcpus=wanted.cpuset | wanted.pcpuset,
    )
    size_kib = wanted.memory_mib * _KIB_PER_MIB
    if numa.page_size is not None:
        for pages in _pages_asked_for(cell, numa.page_size):
            if size_kib % pages.size_kib == 0 and size_kib // pages.size_kib <= pages.free:
                return replace(share, page_size_kib=pages.size_kib, pages=size_kib // pages.size_kib, firm_pages=True)
        return None
    if not cell.pages:
        room = cell.free_memory_mib if numa.pins else cell.memory_mib
        return replace(share, firm_memory=numa.pins) if wanted.memory_mib <= room else None
    smallest = cell.pages[0]
    count, rest = divmod(size_kib, smallest.size_kib)
    if rest or count > (smallest.free if numa.pins else smallest.total):
        return None
    return replace(share, page_size_kib=smallest.size_kib, pages=count, firm_pages=numa.pins)


def _pages_asked_for(cell: HostCell, size: int | PageRequest) -> Sequence[Pages]:
    """Return the acceptable page sizes, largest first."""
    if size is PageRequest.SMALL:
        return cell.pages[:1]
    if size is PageRequest.LARGE:
        return cell.pages[:0:-1]
    if size is PageRequest.ANY:
        return cell.pages[::-1]
    return [pages for pages in cell.pages if pages.size_kib == size]


def _pins(cell: HostCell, count: int, extra: int, policy: ThreadPolicy | None) -> tuple[list[int], list[int]] | None:
    """Return ``count`` host CPUs for vCPUs and ``extra`` host CPUs for the emulator, as the thread policy demands.

    Return None if too few suitable CPUs are free.
    """
    free_pcpus = cell.free_pcpus
    free = [sorted(core & free_pcpus) for core in cell.cores]
    if count + extra > sum(map(len, free)):
        return None
    if policy is ThreadPolicy.ISOLATE:
        return _isolated(cell, free, count, extra)
    vcpus = _on_whole_cores(free, count, fewest=2 if policy is ThreadPolicy.REQUIRE else 1)
    if vcpus is None:
        if policy is ThreadPolicy.REQUIRE:
            return None
        vcpus = list(chain(*free))[:count]
    used = set(vcpus)
    return vcpus, [cpu for cpu in chain(*free) if cpu not in used][:extra]


def _on_whole_cores(free: Sequence[Sequence[int]], count: int, *, fewest: int) -> list[int] | None:
    """Return ``count`` CPUs, with the same number of threads from each used core, or None if that is impossible.

    The number of threads per core is the largest one that gives enough CPUs, and at least ``fewest``.
    """
    if not count:
        return []
    for threads in range(max(map(len, free), default=0), fewest - 1, -1):
        cores = [core[:threads] for core in free if len(core) >= threads]
        if threads * len(cores) >= count:
            return list(chain(*cores))[:count]
    return None


def _isolated(
    cell: HostCell, free: Sequence[Sequence[int]], count: int, extra: int
) -> tuple[list[int], list[int]] | None:
    """Return CPUs that each have a physical core to themselves, or None if there are not enough such CPUs.

    On a host with hyper-threading, the sets of dedicated and shared CPUs must be equal, so that the idle siblings stay
    unused. If the sets differ, other servers could use the siblings, so None is returned, as in Nova.
    """
    if cell.threads > 1 and cell.pcpuset != cell.cpuset:
        return None
    whole = [core[0] for core in free if len(core) == cell.threads]
    # The emulator needs whole cores of its own as well; it cannot use siblings on the cores of the vCPUs.
    if count + extra > len(whole):
        return None
    return whole[:count], whole[count : count + extra]
