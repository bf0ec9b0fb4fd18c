# SPDX-License-Identifier: Apache-2.0
"""Comparison of the NUMA and PCI requests that Nova and Kilonova read from flavors and images, including rejections."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from nova.virt import hardware

from kilonova.errors import InvalidRequest
from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.numa import CpuPolicy, PageRequest
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.devices.pci_request import pci_requests, read_aliases
from kilonova.scheduler.numa_request import numa_request
from scheduler_peer import nova_devices, nova_world, placement_queries
from support import device_clouds

REFUSED = "refused"
_POLICIES = ("dedicated", "shared", "mixed", "strange", "")
_THREADS = ("prefer", "isolate", "require", "strange")
_NODES = ("1", "2", "2", "3", "0", "-1", "two", " 2", "")
_PAGES = (
    "large",
    "any",
    "small",
    "2048",
    "2MB",
    "1GB",
    "2M",
    "4kB",
    "2MiB",
    "1.5GB",
    "8Mb",
    "0",
    "100B",
    "strange",
    "",
)
_MASKS = ("^0", "0-1", "1", "1-3,^2", "0-9", "^0-9", "3-1", "strange", "")
_CPUS = ("0", "0-1", "0,2", "1,3", "2-3", "strange")
_MEMORY = ("512", "1024", "2048", "some")
_NEAR = ("required", "preferred", "legacy", "socket", "strange", "")
EXTRA_SPECS: Mapping[str, tuple[str, ...]] = {
    "hw:cpu_policy": _POLICIES,
    "hw:cpu_thread_policy": _THREADS,
    "hw:numa_nodes": _NODES,
    "hw:mem_page_size": _PAGES,
    "hw:emulator_threads_policy": ("isolate", "share", "strange", ""),
    "hw:cpu_dedicated_mask": _MASKS,
    "hw:cpu_realtime": ("yes", "true", "no", "strange"),
    "hw:cpu_realtime_mask": _MASKS,
    "hw:pmem": ("4GB", "4GB,16GB", " , "),
    "resources:PCPU": ("2", "4", "5", "many"),
    "resources1:VCPU": ("2", "0", "many"),
    "trait:HW_CPU_HYPERTHREADING": ("required", "forbidden"),
}
PROPERTIES: Mapping[str, tuple[str, ...]] = {
    "hw_cpu_policy": _POLICIES[:4],
    "hw_cpu_thread_policy": _THREADS,
    "hw_numa_nodes": _NODES[:7],
    "hw_mem_page_size": _PAGES,
    "hw_cpu_realtime_mask": _MASKS,
    "trait:HW_CPU_HYPERTHREADING": ("required", "forbidden"),
}
ALIASES_ASKED = (
    *("gpu:1", "gpu:2,nic:1", "near:1", "pf:1", " gpu : 1 ", "gpu:1, near:2"),
    *("unknown:1", "gpu", "gpu:some", "gpu:0", "gpu:-1", "gpu:1,", ""),
)


@dataclass(frozen=True)
class Reading:
    """One flavor and image, and the results of both sides."""

    spec: RequestSpec
    ours: Hashable
    theirs: Hashable
    aggregates: tuple[Aggregate, ...] = ()


def asking_for_devices(rng: Random) -> RequestSpec:
    """Return a flavor and an image that request devices, validly or not."""
    specs = {"hw:pci_numa_affinity_policy": rng.choice(_NEAR), "pci_passthrough:alias": rng.choice(ALIASES_ASKED)}
    properties = {"hw_pci_numa_affinity_policy": rng.choice(_NEAR[:5])}
    flavor = Flavor("1", "m1", 1, 512, 1, extra_specs=_some_of(rng, specs))
    return RequestSpec(flavor, Image("i", properties=_some_of(rng, properties)))


def _some_of(rng: Random, values: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in values.items() if rng.random() < 0.7}


def asking_for_cells(rng: Random) -> RequestSpec:
    """Return a flavor and an image with a few random NUMA requirements, valid or not, and often contradictory."""
    specs = {key: rng.choice(EXTRA_SPECS[key]) for key in rng.sample(sorted(EXTRA_SPECS), rng.choice((1, 2, 3)))}
    if rng.random() < 0.2:
        specs |= _listed(rng, "hw:")
    if any("mask" in key for key in specs) and rng.random() < 0.7:
        specs["hw:cpu_policy"] = "mixed"
        if "hw:cpu_realtime_mask" in specs:
            specs["hw:cpu_realtime"] = "yes"
    properties = {key: rng.choice(PROPERTIES[key]) for key in rng.sample(sorted(PROPERTIES), rng.choice((0, 0, 1, 2)))}
    if rng.random() < 0.1:
        properties |= _listed(rng, "hw_")
    flavor = Flavor("1", "m1", rng.choice((1, 2, 4, 4, 6)), rng.choice((512, 1024, 2048, 1025)), 1, extra_specs=specs)
    return RequestSpec(flavor, Image("i", properties=properties))


def _listed(rng: Random, prefix: str) -> dict[str, str]:
    """Return CPUs and memory of each cell, mostly two cells that share four CPUs."""
    if rng.random() < 0.6:
        halves = rng.choice((("0-1", "2-3"), ("0,2", "1,3"), ("0", "1-3")))
        sizes = rng.choice((("512", "512"), ("1024", "1024"), ("512", "1536")))
        return {
            f"{prefix}numa_nodes": "2",
            **{f"{prefix}numa_cpus.{cell}": cpus for cell, cpus in enumerate(halves)},
            **{f"{prefix}numa_mem.{cell}": size for cell, size in enumerate(sizes)},
        }
    keys = rng.sample(("numa_cpus.0", "numa_cpus.1", "numa_mem.0", "numa_mem.1"), rng.randint(1, 4))
    return {f"{prefix}{key}": rng.choice(_CPUS if "cpus" in key else _MEMORY) for key in keys}


def _our_cells(spec: RequestSpec) -> Hashable:
    wanted = numa_request(spec.flavor, spec.image)
    if wanted is None:
        return None
    return (
        tuple((cell.cpuset, cell.pcpuset, cell.memory_mib) for cell in wanted.cells),
        wanted.cpu_policy.value,
        wanted.thread_policy.value if wanted.thread_policy else None,
        wanted.page_size,
        wanted.isolate_emulator,
    )


_KINDS_OF_PAGES = {
    hardware.MEMPAGES_SMALL: PageRequest.SMALL,
    hardware.MEMPAGES_LARGE: PageRequest.LARGE,
    hardware.MEMPAGES_ANY: PageRequest.ANY,
}


def _their_cells(flavor: Any, image: Any) -> Hashable:
    wanted = nova_devices.numa_topology(flavor, image)
    if wanted is None:
        return None
    first = wanted.cells[0]
    return (
        tuple((frozenset(cell.cpuset), frozenset(cell.pcpuset), cell.memory) for cell in wanted.cells),
        first.cpu_policy or CpuPolicy.SHARED.value,
        first.cpu_thread_policy,
        _KINDS_OF_PAGES.get(first.pagesize, first.pagesize),
        wanted.emulator_threads_isolated,
    )


def _our_devices(spec: RequestSpec) -> Hashable:
    requests = pci_requests(spec.flavor, spec.image, read_aliases(device_clouds.ALIASES))
    return tuple((each.alias, each.count, each.specs, each.numa_policy.value) for each in requests)


def _their_devices(flavor: Any, image: Any) -> Hashable:
    return tuple(
        (
            each.alias_name,
            each.count,
            tuple(tuple(sorted(spec.items())) for spec in each.spec),
            each.numa_policy,
        )
        for each in nova_devices.pci_requests(flavor, image).requests
    )


Aggregates = tuple[Aggregate, ...]


@dataclass(frozen=True)
class _Side:
    ask: Callable[[Random], RequestSpec]
    ours: Callable[[RequestSpec, Aggregates], Hashable]
    theirs: Callable[[RequestSpec, Aggregates], Hashable]
    among: Callable[[Random], Aggregates] = lambda _: ()


def _as_objects(read: Callable[[Any, Any], Hashable]) -> Callable[[RequestSpec, Aggregates], Hashable]:
    return lambda spec, _: read(nova_world.flavor(spec.flavor), nova_world.image(spec.image))


CELLS = "NUMA request"
DEVICES = "PCI requests"
PLACEMENT = "Placement query"
_SIDES = {
    CELLS: _Side(asking_for_cells, lambda spec, _: _our_cells(spec), _as_objects(_their_cells)),
    DEVICES: _Side(asking_for_devices, lambda spec, _: _our_devices(spec), _as_objects(_their_devices)),
    PLACEMENT: _Side(
        placement_queries.some_request,
        placement_queries.ours,
        placement_queries.theirs,
        placement_queries.some_aggregates,
    ),
}
READINGS = tuple(_SIDES)


def read(name: str, rng: Random) -> Reading:
    """Generate a flavor, an image and aggregates, and return the results of both sides."""
    side = _SIDES[name]
    spec, aggregates = side.ask(rng), side.among(rng)
    return Reading(spec, ours_of(name, spec, aggregates), theirs_of(name, spec, aggregates), aggregates)


def ours_of(name: str, spec: RequestSpec, aggregates: Aggregates = ()) -> Hashable:
    """Return Kilonova's reading of a flavor and an image."""
    try:
        return _SIDES[name].ours(spec, aggregates)
    except InvalidRequest:
        return REFUSED


def theirs_of(name: str, spec: RequestSpec, aggregates: Aggregates = ()) -> Hashable:
    """Return Nova's reading of a flavor and an image."""
    try:
        return _SIDES[name].theirs(spec, aggregates)
    except (nova_world.Refused, *nova_devices.REFUSALS):
        return REFUSED
