# SPDX-License-Identifier: Apache-2.0
"""NUMA and PCI filters equal their reference definitions, and every layout is valid and accounted for."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from tests.properties.device_definitions import fits_cells, has_devices

from kilonova.cli.wiring.rules import build_engine
from kilonova.errors import InvalidRequest
from kilonova.model.host_devices import HostDevices
from kilonova.model.numa import CpuPolicy, Ratios
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.device_states import shape_of
from kilonova.scheduler.devices.choice import needs_of
from kilonova.scheduler.devices.numa_fit import lay_out
from kilonova.scheduler.devices.pci_request import pci_requests, read_aliases
from kilonova.scheduler.engine.batch import Batch
from kilonova.scheduler.filters import NUMATopologyFilter, PciPassthroughFilter
from kilonova.scheduler.guests import guest_of
from kilonova.scheduler.host_records import HostRecord, build_host_table
from kilonova.scheduler.host_table import ALL_ROWS
from kilonova.scheduler.numa_request import numa_request
from kilonova.scheduler.settings import SchedulerConfig
from kilonova.scheduler.weighers import PCIWeigher
from support.device_clouds import ALIASES, some_host, some_request

CONFIG = SchedulerConfig(pci_alias=ALIASES)
RATIOS = (Ratios(), Ratios(2.0, 1.5))


HOSTS, REQUESTS = 50, 5


@pytest.mark.parametrize("seed", range(40))
def test_the_filters_equal_their_definitions_for_one_host(seed: int) -> None:
    """40 clouds x 50 hosts x 5 requests; the second call for each request is answered from the memo."""
    rng = Random(seed)
    hosts = [some_host(rng) for _ in range(HOSTS)]
    specs = [some_request(rng) for _ in range(REQUESTS)]
    ratios = [RATIOS[number % 2] for number in range(len(hosts))]
    table = build_host_table(
        [
            HostRecord(
                f"h{number}",
                (
                    Inventory("VCPU", 8, allocation_ratio=bounds.cpu),
                    Inventory("MEMORY_MB", 4096, allocation_ratio=bounds.memory),
                ),
                devices=devices,
            )
            for number, (devices, bounds) in enumerate(zip(hosts, ratios, strict=True))
        ]
    )
    cells, pools = NUMATopologyFilter.configured(CONFIG), PciPassthroughFilter.configured(CONFIG)
    for spec in (*specs, *specs):
        expected = [fits_cells(host, bounds, spec) for host, bounds in zip(hosts, ratios, strict=True)]
        assert cells.passes(table, spec).tolist() == expected
        assert pools.passes(table, spec).tolist() == [has_devices(host, spec) for host in hosts]
    free = [sum(pool.total - pool.used for pool in host.pools) for host in hosts]
    ratings = PCIWeigher().weigh(table, specs[0], ALL_ROWS)
    assert (ratings is None and not any(free)) or ratings.tolist() == [100 - min(count, 99) for count in free]


def test_what_is_laid_out_is_there_and_comes_back() -> None:
    rng = Random(7)
    outcomes = Counter(laid_out(some_host(rng), some_request(rng), rng.choice(RATIOS)) for _ in range(3_000))
    assert outcomes[True] > 200, "too few of the random requests fit"
    assert outcomes[False] > 200


def laid_out(host: HostDevices, spec: RequestSpec, ratios: Ratios) -> bool | None:
    """Check the layout of a server; return whether it fits, or None if it has no NUMA topology."""
    try:
        wanted = numa_request(spec.flavor, spec.image)
        requests = pci_requests(spec.flavor, spec.image, read_aliases(ALIASES))
    except InvalidRequest:
        return None
    if wanted is None:
        return None
    share = lay_out(host, wanted, requests, ratios)
    other = renamed(host, Random(len(host.cells)))
    assert shape_of(other) == shape_of(host)
    assert (lay_out(other, wanted, requests, ratios) is None) == (share is None)
    if share is None:
        return False
    assert host.can_give(share)
    assert len({part.cell for part in share.cells}) == len(wanted.cells)
    for part, asked in zip(share.cells, wanted.cells, strict=True):
        cell = next(cell for cell in host.cells if cell.id == part.cell)
        assert part.memory_mib == asked.memory_mib
        assert part.cpus == len(asked.cpuset)
        assert part.pinned <= cell.pcpuset - cell.pinned
        assert {vcpu for vcpu, _ in part.pinning} == asked.pcpuset
        cpus = [cpu for _, cpu in part.pinning]
        assert len({*cpus, *part.emulator}) == len(asked.pcpuset) + len(part.emulator)
        assert {*cpus, *part.emulator} <= part.pinned
        assert part.pages == 0 or part.pages * part.page_size_kib == asked.memory_mib * 1024
    assert sum(len(part.emulator) for part in share.cells) == int(wanted.isolate_emulator)
    assert sum(count for _, count in share.devices) == sum(request.count for request in requests)
    after = host.taking(share)
    assert after.without(share) == host
    assert host.used_by([share]) == host.used_by([]).taking(share)
    if wanted.cpu_policy is not CpuPolicy.SHARED:
        assert not any(part.pinned and after.can_give(share) for part in share.cells)
    return True


def renamed(host: HostDevices, rng: Random) -> HostDevices:
    """Return the host with its CPUs renumbered."""
    numbers = rng.sample(range(100), 100)

    def moved(cpus: frozenset[int]) -> frozenset[int]:
        return frozenset(numbers[cpu] for cpu in cpus)

    cells = (
        replace(
            cell,
            cpuset=moved(cell.cpuset),
            pcpuset=moved(cell.pcpuset),
            pinned=moved(cell.pinned),
            siblings=tuple(rng.sample([moved(core) for core in cell.siblings], len(cell.siblings))),
        )
        for cell in host.cells
    )
    return replace(host, cells=tuple(cells))


def test_hosts_that_differ_in_a_count_differ_in_shape() -> None:
    rng = Random(3)
    for host in filter(lambda one: one.cells, (some_host(rng) for _ in range(200))):
        cell = host.cells[0]
        cpu = min(cell.free_pcpus, default=None)
        changes = [{"used_cpus": 9}, {"used_memory_mib": 1}, {"socket": 7}, {"cpuset": cell.cpuset | {99}}]
        changes += [{"pinned": cell.pinned | {cpu}}, {"pcpuset": cell.pcpuset - {cpu}}] if cpu is not None else []
        for change in changes:
            other = replace(host, cells=(replace(cell, **change), *host.cells[1:]))
            assert shape_of(other) != shape_of(host), change


@pytest.mark.parametrize("seed", range(20))
def test_servers_of_one_request_are_decided_as_if_each_came_alone(seed: int) -> None:
    """A batch recomputes only the host that took a server; the results equal those of a full recomputation."""
    rng = Random(seed)
    config = replace(CONFIG, enabled_filters=("NUMATopologyFilter", "PciPassthroughFilter"))
    engine = build_engine(config)
    aliases = read_aliases(ALIASES)
    records = [
        HostRecord(f"h{number}", (Inventory("MEMORY_MB", 99_999),), devices=some_host(rng)) for number in range(30)
    ]
    for spec in (some_request(rng) for _ in range(10)):
        hosts, ours = build_host_table(records), build_host_table(records)
        batch = Batch(engine, ours, spec, limit=3)
        for _ in range(8):
            whole, later = engine.decide(hosts, spec, limit=3), batch.decide()
            assert later.ranked == whole.ranked
            assert later.survivors == whole.survivors
            if not whole.ranked:
                break
            row = whole.ranked[0].row
            share = needs_of(spec, aliases).on(hosts, row)
            assert share is not None
            batch.place(row, share=share)
            hosts.count_server(row, {}, guest_of(spec), share)
