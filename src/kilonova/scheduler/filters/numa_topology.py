# SPDX-License-Identifier: Apache-2.0
"""NUMATopologyFilter: hosts with NUMA cells on which the server fits."""

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar, Self

import numpy as np

from kilonova.errors import InvalidRequest
from kilonova.model.host_devices import HostDevices
from kilonova.model.numa import InstanceNuma, Ratios
from kilonova.model.pci import PciRequest
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.device_states import DeviceStates
from kilonova.scheduler.devices.numa_fit import lay_out
from kilonova.scheduler.devices.pci_request import PCI_READS, Alias, all_pci_requests, read_aliases
from kilonova.scheduler.devices.port_requests import NetworkAffinity
from kilonova.scheduler.host_table import BoolArray, FloatArray, HostTable, IntArray
from kilonova.scheduler.numa_request import NUMA_READS, numa_request
from kilonova.scheduler.reads import Reads
from kilonova.scheduler.settings import SchedulerConfig


@dataclass(frozen=True, slots=True)
class NUMATopologyFilter:
    """Keep hosts whose NUMA cells can hold the server's NUMA cells, with the requested PCI devices near enough.

    For a server without a NUMA topology, every host passes. For other servers, a host must report its NUMA cells. If
    flavor and image contradict each other, no host passes.

    Column conditions exclude most hosts. The exact fit is computed once for all hosts with equivalent cells and pools.
    Shapes: hosts.devices (H,) → (H,) bool.
    Source: spec SCHEDULER §3 #21.
    """

    run_once: ClassVar[bool] = False
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS
    reads: ClassVar[Reads] = NUMA_READS | PCI_READS
    only_where_placed: ClassVar[bool] = True
    aliases: Mapping[str, Alias] = field(default_factory=dict)
    reason: str = "its NUMA cells, with the devices near them, cannot hold the server"

    @classmethod
    def configured(cls, config: SchedulerConfig) -> Self:
        return cls(aliases=read_aliases(config.pci_alias))

    def reason_for(self, spec: RequestSpec) -> str:
        """Return the reason for a request with networks, whose cards must be near the server's cells."""
        affinity = NetworkAffinity.of(spec)
        near = [f"physical network {name}" for name in sorted(affinity.physnets)]
        near += ["overlay networks"] if affinity.tunneled else []
        return f"{self.reason} near the cards of {', '.join(near)}" if near else self.reason

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        try:
            wanted = numa_request(spec.flavor, spec.image)
            if wanted is None:
                return hosts.all_hosts
            requests = all_pci_requests(spec, self.aliases)
        except InvalidRequest:
            return np.zeros(len(hosts), dtype=np.bool_)
        return _fitting(hosts, wanted, requests, NetworkAffinity.of(spec))


def _fitting(
    hosts: HostTable, wanted: InstanceNuma, requests: tuple[PciRequest, ...], networks: NetworkAffinity
) -> BoolArray:
    states = hosts.device_states
    possible = _may_fit(states, wanted, requests)
    shapes = states.shapes(hosts.devices)
    passed = np.zeros(len(hosts), dtype=np.bool_)
    distinct, index = _ratios(hosts)
    for number, ratios in enumerate(distinct):
        mine = index == number

        def judge(shape: HostDevices, ratios: Ratios = ratios) -> bool:
            return lay_out(shape, wanted, requests, ratios, networks) is not None

        key = NUMATopologyFilter, wanted, requests, ratios, networks
        passed[mine] = states.verdicts(key, shapes[mine], possible, judge)
    return passed


def _may_fit(states: DeviceStates, wanted: InstanceNuma, requests: tuple[PciRequest, ...]) -> BoolArray:
    """Return the mask of the device-state shapes that meet the necessary conditions of a fit. Shapes: → (P,)."""
    most = states.summaries()
    pinned = [len(cell.pcpuset) for cell in wanted.cells]
    may: BoolArray = (
        (most.cells >= len(wanted.cells))
        & (most.free_pcpus >= sum(pinned) + wanted.isolate_emulator)
        & (most.cell_free_pcpus >= max(pinned))
        & (most.cell_cpus >= max(len(cell.cpuset) for cell in wanted.cells))
        & (most.devices >= sum(request.count for request in requests))
    )
    if wanted.page_size is None:
        may = may & (most.cell_memory_mib >= max(cell.memory_mib for cell in wanted.cells))
    return may


def _ratios(hosts: HostTable) -> tuple[tuple[Ratios, ...], IntArray]:
    """Return the distinct pairs of allocation ratios, and the index of each host's pair. Shapes: → (…), (H,)."""

    def work_out() -> tuple[tuple[Ratios, ...], IntArray]:
        pairs = np.column_stack([_ratio(hosts, "VCPU"), _ratio(hosts, "MEMORY_MB")])
        distinct, index = np.unique(pairs, axis=0, return_inverse=True)
        return tuple(Ratios(cpu, memory) for cpu, memory in distinct.tolist()), index.reshape(-1)

    return hosts.memo.get((NUMATopologyFilter, "ratios"), work_out)


def _ratio(hosts: HostTable, resource_class: str) -> FloatArray:
    column = hosts.column(resource_class)
    return np.ones(len(hosts)) if column is None else hosts.allocation_ratio[:, column]
