# SPDX-License-Identifier: Apache-2.0
"""RemoteManagedPortsFilter: hosts that support remote-managed ports, if requested."""

from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.reads import NOTHING, Reads


@dataclass(frozen=True, slots=True)
class RemoteManagedPortsFilter:
    """Require the trait COMPUTE_REMOTE_MANAGED_PORTS if a requested port is remote-managed.

    Source: spec SCHEDULER §6 #10.
    """

    name: ClassVar[str] = "remote_managed_ports_filter"
    reason: ClassVar[str] = "has no remote-managed ports"
    reads: ClassVar[Reads] = NOTHING

    def apply(self, spec: RequestSpec, aggregates: AggregateIndex) -> RequestSpec:  # noqa: ARG002
        wanted = any(network.vnic_type == "remote-managed" for network in spec.networks)
        return spec.requiring("COMPUTE_REMOTE_MANAGED_PORTS") if wanted else spec
