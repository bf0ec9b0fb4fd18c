# SPDX-License-Identifier: Apache-2.0
"""Random NUMA cells, PCI pools and server requests, with small numbers so that many requests only just fit.

Generated from a seed: a Hypothesis search of the same size would take minutes.
"""

from dataclasses import replace
from random import Random
from typing import Any

from kilonova.model.flavor import Flavor
from kilonova.model.host_devices import NOTHING, HostDevices
from kilonova.model.image import Image
from kilonova.model.numa import HostCell, Pages
from kilonova.model.pci import PF, STANDARD, VF, PciPool
from kilonova.model.request_spec import RequestSpec

ALIASES = (
    '{"name": "gpu", "vendor_id": "10de", "product_id": "1db4"}',
    '{"name": "near", "vendor_id": "10de", "product_id": "1db4", "numa_policy": "required"}',
    '{"name": "nic", "vendor_id": "8086", "product_id": "154d", "device_type": "type-VF", "numa_policy": "socket"}',
    '{"name": "nic", "vendor_id": "15b3", "product_id": "1018", "device_type": "type-VF", "numa_policy": "socket"}',
    '{"name": "pf", "vendor_id": "8086", "product_id": "154d", "device_type": "type-PF", "numa_policy": "preferred"}',
    '{"name": "vf", "vendor_id": "8086", "product_id": "154d", "device_type": "type-VF"}',
)
_ALIAS = "pci_passthrough:alias"
EXTRA_SPECS = {
    "hw:cpu_policy": ("dedicated", "dedicated", "shared", "mixed"),
    "hw:numa_nodes": ("1", "2", "2", "3"),
    "hw:cpu_thread_policy": ("prefer", "isolate", "require"),
    "hw:mem_page_size": ("large", "any", "small", "2048", "1GB"),
    "hw:emulator_threads_policy": ("isolate", "share"),
    "hw:cpu_dedicated_mask": ("^0", "0-1"),
    "hw:pci_numa_affinity_policy": ("required", "preferred", "legacy", "socket"),
    _ALIAS: ("gpu:1", "gpu:2", "near:1", "gpu:1,near:1", "nic:2", "pf:1", "nic:1,pf:1,gpu:2", "nic:2,vf:1"),
}
_PRODUCTS = (("10de", "1db4", STANDARD), ("8086", "154d", VF), ("8086", "154d", PF), ("15b3", "1018", VF))


def some_cell(rng: Random, number: int, socket: int | None) -> HostCell:
    """Return a NUMA cell of up to 8 CPUs, 1 or 2 threads per core, some of them dedicated or in use."""
    threads = rng.choice((1, 2))
    cores = [frozenset(range(at, at + threads)) for at in range(0, rng.randint(1, 4) * threads, threads)]
    cpus = frozenset().union(*cores)
    dedicated = frozenset(cpu for cpu in cpus if rng.random() < 0.75)
    shared = frozenset(cpu for cpu in cpus - dedicated if rng.random() < 0.9)
    if rng.random() < 0.3:
        dedicated = shared = cpus
    small = rng.randint(0, 8) * 512
    pages = (Pages(4, 4096 * 256, used=small * 256), Pages(2048, 1024, rng.choice((0, 512)), small // 8))
    return HostCell(
        id=number,
        cpuset=shared,
        pcpuset=dedicated,
        memory_mib=4096,
        siblings=rng.choice((tuple(cores), tuple(cores), ())),
        pages=rng.choice(((), pages, pages[1:])),
        socket=socket,
        used_cpus=rng.randint(0, 4),
        used_memory_mib=rng.randint(0, 8) * 512,
        pinned=frozenset(cpu for cpu in dedicated if rng.random() < rng.choice((0.0, 0.3))),
    )


def some_host(rng: Random) -> HostDevices:
    """Return a host with up to three NUMA cells and four PCI pools; sometimes one that reports neither."""
    if rng.random() < 0.1:
        return NOTHING
    sockets = rng.choice(((0, 1, 1), (0, 0, 1), (None, 0, 1)))
    pools = []
    for number in range(rng.randint(0, 4)):
        vendor, product, kind = rng.choice(_PRODUCTS)
        total = rng.randint(1, 3)
        tags: Any = rng.choice(((), (), (("physical_network", "a"),), (("remote_managed", "true"),)))
        near = rng.choice((None, 0, 1, 2))
        pools.append(PciPool(number, vendor, product, total, near, kind, tags, rng.randint(0, total)))
    cells = [some_cell(rng, number, sockets[number]) for number in range(rng.randint(0, 3))]
    return HostDevices(tuple(cells), tuple(pools))


def asking_for_devices(rng: Random) -> RequestSpec:
    """Return a server request that always needs devices."""
    spec = some_request(rng)
    specs = {**spec.flavor.extra_specs, _ALIAS: rng.choice(EXTRA_SPECS[_ALIAS])}
    return replace(spec, flavor=replace(spec.flavor, extra_specs=specs))


def some_request(rng: Random) -> RequestSpec:
    """Return a server request of up to 6 vCPUs with random extra specs; some of them contradict each other."""
    chosen = rng.sample(sorted(EXTRA_SPECS), rng.choice((0, 1, 1, 2, 2, 3)))
    specs = {key: rng.choice(EXTRA_SPECS[key]) for key in chosen}
    if specs.keys() & {"hw:cpu_thread_policy", "hw:emulator_threads_policy"}:
        specs["hw:cpu_policy"] = "dedicated"
    if specs.get("hw:cpu_policy") == "mixed":
        specs.setdefault("hw:cpu_dedicated_mask", "^0")
    elif "hw:cpu_dedicated_mask" in specs:
        specs["hw:cpu_policy"] = "mixed"
    flavor = Flavor("1", "m1", rng.choice((1, 2, 2, 4, 6)), rng.choice((512, 1024, 2048, 3072)), 1, extra_specs=specs)
    properties = rng.choice(({}, {}, {"hw_cpu_policy": "dedicated"}, {"hw_numa_nodes": "2"}))
    return RequestSpec(flavor, Image("i", properties=properties))
