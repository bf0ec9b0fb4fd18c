# SPDX-License-Identifier: Apache-2.0
"""Requests for several servers that docs/differences-from-nova.md describes, with the choices of both projects.

Imports nothing but Kilonova's scheduler, so that it also runs in Nova's environment.
"""

from dataclasses import dataclass

from kilonova.model.flavor import Flavor
from kilonova.model.host import NODE_TRAITS
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.host_records import HostRecord
from kilonova.scheduler.settings import SchedulerConfig

_GIB = 1024
CONFIG = SchedulerConfig(enabled_filters=(), cpu_weight_multiplier=0.0, io_ops_weight_multiplier=0.0)


@dataclass(frozen=True)
class DecisionCase:
    """One request for as many servers as there are choices, on hosts in no aggregate.

    ``ours``, ``theirs``: the host of each server in Kilonova and in Nova.
    ``afterwards``: memory in MiB of further servers, all of which have room after Kilonova's choices, not after Nova's.
    """

    records: tuple[HostRecord, ...]
    spec: RequestSpec
    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    afterwards: tuple[int, ...]


def _host(name: str, *, vcpus: int, memory_gib: int, disk_gib: int) -> HostRecord:
    inventories = (
        Inventory("VCPU", vcpus),
        Inventory("MEMORY_MB", memory_gib * _GIB),
        Inventory("DISK_GB", disk_gib),
    )
    return HostRecord(name, inventories, used={}, traits=frozenset(NODE_TRAITS))


VOLUME_BACKED = DecisionCase(
    (_host("a", vcpus=64, memory_gib=8, disk_gib=400), _host("b", vcpus=64, memory_gib=4, disk_gib=390)),
    RequestSpec(Flavor("1", "m1", 1, _GIB, 100), volume_backed=True),
    ours=("a", "a", "a"),
    theirs=("a", "a", "b"),
    afterwards=(4 * _GIB, 4 * _GIB),
)
"""The root disks of the servers are volumes, so memory decides. Nova counts 100 GiB of the host's disk for each."""

FULL_HOST = DecisionCase(
    (
        _host("a", vcpus=1, memory_gib=64, disk_gib=40),
        _host("b", vcpus=64, memory_gib=12, disk_gib=100),
        _host("c", vcpus=64, memory_gib=8, disk_gib=140),
    ),
    RequestSpec(Flavor("1", "m1", 1, _GIB, 1)),
    ours=("a", "b"),
    theirs=("a", "c"),
    afterwards=(8 * _GIB, 8 * _GIB),
)
"""The first server takes the last CPU of a. In Nova the free memory of a still makes that of b and c look alike."""

CASES = (VOLUME_BACKED, FULL_HOST)


def fits_afterwards(case: DecisionCase, choices: tuple[str, ...]) -> bool:
    """Tell whether the further servers have room after these choices, the largest first on the freest host."""
    free = {
        each.host: next(i.total for i in each.inventories if i.resource_class == "MEMORY_MB") for each in case.records
    }
    cpus = {each.host: each.inventories[0].total for each in case.records}
    for host in choices:
        free[host] -= case.spec.flavor.memory_mib
        cpus[host] -= case.spec.flavor.vcpus
    for wanted in sorted(case.afterwards, reverse=True):
        open_hosts = [host for host in free if cpus[host] and free[host] >= wanted]
        if not open_hosts:
            return False
        free[max(open_hosts, key=free.__getitem__)] -= wanted
    return True
