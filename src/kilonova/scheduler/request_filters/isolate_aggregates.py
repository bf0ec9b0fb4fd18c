# SPDX-License-Identifier: Apache-2.0
"""IsolateAggregates: reserves aggregates for servers that require certain traits."""

from typing import ClassVar

from kilonova.model.aggregate import Aggregate
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.reads import Keys, Reads
from kilonova.scheduler.resources import RESOURCE_READS, required_traits

_PREFIX = "trait:"


@dataclass(frozen=True, slots=True)
class IsolateAggregates:
    """Forbid every aggregate with metadata ``trait:X=required`` unless flavor or image require the trait X.

    Traits that a requested feature implies (secure boot, TPM, hyper-threading) count as required.

    Source: spec SCHEDULER §6 #5.
    """

    name: ClassVar[str] = "isolate_aggregates"
    reason: ClassVar[str] = "in an aggregate reserved for servers that require certain traits"
    reads: ClassVar[Reads] = Reads(
        extra_specs=RESOURCE_READS.extra_specs,
        properties=RESOURCE_READS.properties,
        metadata=Keys(prefixes=(_PREFIX,)),
    )

    def apply(self, spec: RequestSpec, aggregates: AggregateIndex) -> RequestSpec:
        reserved = [(each.uuid, traits) for each in aggregates.aggregates if (traits := _reserving(each))]
        if not reserved:
            return spec
        required = required_traits(spec.flavor, spec.image)
        closed = frozenset(uuid for uuid, traits in reserved if not traits <= required)
        return spec.with_query(forbidden_aggregates=spec.query.forbidden_aggregates | closed) if closed else spec


def _reserving(aggregate: Aggregate) -> frozenset[str]:
    """Return the traits that a server must require so that it may use the aggregate."""
    return frozenset(
        key.removeprefix(_PREFIX)
        for key, value in aggregate.metadata.items()
        if key.startswith(_PREFIX) and value == "required"
    )
