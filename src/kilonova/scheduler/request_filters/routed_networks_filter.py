# SPDX-License-Identifier: Apache-2.0
"""RoutedNetworksFilter: hosts that are connected to a segment of each requested network."""

from typing import ClassVar

from kilonova.errors import RequestFilterFailed
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.reads import NOTHING, Reads


@dataclass(frozen=True, slots=True)
class RoutedNetworksFilter:
    """Require, for each requested routed network, that the host is in an aggregate of one of the network's segments.

    Raises: RequestFilterFailed, for a segment without an aggregate.
    Source: spec SCHEDULER §6 #9.
    """

    name: ClassVar[str] = "routed_networks_filter"
    reason: ClassVar[str] = "does not reach a segment of a requested network"
    reads: ClassVar[Reads] = NOTHING

    def reason_for(self, spec: RequestSpec) -> str:
        """Return the reason for a request with routed networks."""
        routed = [network.network_id for network in spec.networks if network.segments]
        return f"does not reach a segment of network {' and of network '.join(routed)}" if routed else self.reason

    def apply(self, spec: RequestSpec, aggregates: AggregateIndex) -> RequestSpec:  # noqa: ARG002
        wanted: list[frozenset[str]] = []
        for network in spec.networks:
            if not all(network.segments):
                raise RequestFilterFailed(f"A segment of network {network.network_id} has no aggregate.")
            if network.segments:
                wanted.append(frozenset().union(*network.segments))
        return spec.with_query(member_of=(*spec.query.member_of, *wanted)) if wanted else spec
