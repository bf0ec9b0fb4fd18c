# SPDX-License-Identifier: Apache-2.0
"""MapAzToPlacementAggregate: hosts of the requested availability zone."""

from typing import ClassVar

from kilonova.model.aggregate import ZONE_KEY
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.reads import Reads, names


@dataclass(frozen=True, slots=True)
class MapAzToPlacementAggregate:
    """Require membership in an aggregate of the requested zone.

    If no aggregate has the zone, no condition is added, as in Nova. An example is the default zone of hosts without a
    zone.

    Source: spec SCHEDULER §6 #2.
    """

    name: ClassVar[str] = "map_az_to_placement_aggregate"
    reason: ClassVar[str] = "not in the availability zone"
    reads: ClassVar[Reads] = Reads(metadata=names(ZONE_KEY))

    def apply(self, spec: RequestSpec, aggregates: AggregateIndex) -> RequestSpec:
        zone = spec.availability_zone
        if not zone:
            return spec
        wanted = frozenset(aggregate.uuid for aggregate in aggregates.aggregates if aggregate.availability_zone == zone)
        return spec.with_query(member_of=(*spec.query.member_of, wanted)) if wanted else spec
