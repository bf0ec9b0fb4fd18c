# SPDX-License-Identifier: Apache-2.0
"""Search variants that explain Nova's wrong verdicts on NUMA cells and devices: both missed and impossible fits."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import islice, permutations
from typing import Any

from nova import exception, objects
from nova.objects import fields
from nova.pci.stats import PciDeviceStats
from nova.virt import hardware

from kilonova.model.request_spec import RequestSpec
from scheduler_peer import nova_world

_ORDERS = 2_000
_EMULATOR = 1_000
"""A vCPU number above those of any flavor, which stands for the emulator threads."""


def request_of(spec: RequestSpec) -> Any:
    return nova_world.with_devices(nova_world.request_spec(spec))


def fits(state: Any, wanted: Any, requests: Sequence[Any], stats: PciDeviceStats) -> Any:
    """Return the topology with which Nova fits a server on a host, or None if it does not fit."""
    return hardware.numa_fit_instance_to_host(
        state.numa_topology, deepcopy(wanted), {}, limits=_limits(state), pci_requests=requests, pci_stats=stats
    )


def fits_cell_by_cell(state: Any, wanted: Any, requests: Sequence[Any], stats: PciDeviceStats) -> bool:
    """Return whether Nova fits each cell, in its original form, on some cell of the host together with the devices.

    Nova's own search modifies a cell when an attempt fails, and reuses it.
    """
    limits = _limits(state)

    def chosen(cells: Sequence[Any]) -> Iterator[Any]:
        for number, (host, cell) in enumerate(zip(cells, wanted.cells, strict=True)):
            extra = int(wanted.emulator_threads_isolated and not number)
            try:
                yield hardware._numa_fit_instance_cell(host, deepcopy(cell), limits, extra)
            except exception.MemoryPageSizeNotSupported:
                yield None

    for cells in permutations(state.numa_topology.cells, len(wanted.cells)):
        fitted = list(chosen(cells))
        if all(each is not None for each in fitted) and (not requests or stats.support_requests(requests, {}, fitted)):
            return True
    return False


def without_idle_policies(wanted: Any) -> Any:
    """Return the topology without policies for dedicated CPUs in cells that have no dedicated CPUs."""
    wanted = deepcopy(wanted)
    for number, cell in enumerate(wanted.cells):
        if not cell.pcpuset:
            cell.cpu_thread_policy = None
            if wanted.emulator_threads_isolated and not number:
                cell.pcpuset = {_EMULATOR}
                wanted.emulator_threads_policy = None
    return wanted


def usable(stats: PciDeviceStats, requests: Sequence[Any]) -> PciDeviceStats:
    """Return the pools without those that Nova never assigns to these requests, but counts as near."""
    stats = deepcopy(stats)

    def strikes_out(pool: dict[str, Any]) -> bool:
        return not any(
            stats._filter_pools_for_unrequested_pfs(
                stats._filter_pools_for_unrequested_remote_managed_devices([pool], each), each
            )
            for each in requests
        )

    stats.pools = [pool for pool in stats.pools if not strikes_out(pool)]
    return stats


def orders(stats: PciDeviceStats, requests: Sequence[Any]) -> Iterator[tuple[PciDeviceStats, list[Any]]]:
    """Yield the same pools and requests in other orders, with one request for each device."""
    singles = [_one(each) for each in requests for _ in range(each.count)]
    for pools in permutations(stats.pools):
        ordered = deepcopy(stats)
        ordered.pools = deepcopy(list(pools))
        for some in permutations(singles):
            yield ordered, list(some)


def supported_somehow(stats: PciDeviceStats, requests: Sequence[Any]) -> bool:
    """Return whether Nova serves all requests in some order."""
    return any(
        pools.support_requests(some, {}) for pools, some in islice(orders(usable(stats, requests), requests), _ORDERS)
    )


def fits_somehow(state: Any, wanted: Any, requests: Sequence[Any]) -> bool:
    """Return whether Nova serves all requests together with the cells in some order."""
    pools = usable(state.pci_stats, requests)
    return any(fits_cell_by_cell(state, wanted, some, each) for each, some in islice(orders(pools, requests), _ORDERS))


def claim_fails(state: Any, fitted: Any) -> bool:
    """Return whether Nova's claim fails to pin the CPUs that its filter chose."""
    hosts = {each.id: deepcopy(each) for each in state.numa_topology.cells}
    for cell in fitted.cells:
        cpus = {*(cell.cpu_pinning or {}).values(), *(cell.cpuset_reserved or ())}
        alone = cell.cpu_thread_policy == fields.CPUThreadAllocationPolicy.ISOLATE
        take = hosts[cell.id].pin_cpus_with_siblings if alone else hosts[cell.id].pin_cpus
        try:
            take(cpus)
        except exception.CPUPinningInvalid:
            return True
    return False


def _one(request: Any) -> Any:
    single = deepcopy(request)
    single.count = 1
    return single


def _limits(state: Any) -> Any:
    return objects.NUMATopologyLimits(
        cpu_allocation_ratio=state.cpu_allocation_ratio, ram_allocation_ratio=state.ram_allocation_ratio
    )
