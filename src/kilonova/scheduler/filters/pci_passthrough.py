# SPDX-License-Identifier: Apache-2.0
"""PciPassthroughFilter: hosts with the PCI devices that the flavor and the ports request."""

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar, Self

import numpy as np

from kilonova.errors import InvalidRequest
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.devices.pci_fit import serve
from kilonova.scheduler.devices.pci_request import PCI_READS, Alias, all_pci_requests, read_aliases
from kilonova.scheduler.devices.port_requests import port_pci_requests
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import Reads
from kilonova.scheduler.settings import SchedulerConfig


@dataclass(frozen=True, slots=True)
class PciPassthroughFilter:
    """Keep hosts whose pools have enough devices for all PCI requests; NUMATopologyFilter checks the NUMA affinity.

    For a server without PCI requests, every host passes. For a request with an unknown alias, no host passes.
    Shapes: hosts.devices (H,) → (H,) bool.
    Source: spec SCHEDULER §3 #22.
    """

    run_once: ClassVar[bool] = False
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS
    reads: ClassVar[Reads] = PCI_READS
    only_where_placed: ClassVar[bool] = True
    aliases: Mapping[str, Alias] = field(default_factory=dict)
    reason: str = "lacks free PCI devices that the flavor requests"

    @classmethod
    def configured(cls, config: SchedulerConfig) -> Self:
        return cls(aliases=read_aliases(config.pci_alias))

    def reason_for(self, spec: RequestSpec) -> str:
        """Return the reason for a request with ports that need PCI devices."""
        try:
            asked = port_pci_requests(spec.networks, None)
        except InvalidRequest as error:
            return error.message
        wanted = [f"port {each.port_id} ({', '.join('='.join(pair) for pair in each.specs[0])})" for each in asked]
        return f"{self.reason} or for {', '.join(wanted)}" if wanted else self.reason

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        try:
            requests = all_pci_requests(spec, self.aliases)
        except InvalidRequest:
            return np.zeros(len(hosts), dtype=np.bool_)
        if not requests:
            return hosts.all_hosts
        states = hosts.device_states
        enough = states.summaries().devices >= sum(request.count for request in requests)
        shapes = states.shapes(hosts.devices)
        return states.verdicts(
            (PciPassthroughFilter, requests), shapes, enough, lambda shape: serve(shape.pools, requests) is not None
        )
