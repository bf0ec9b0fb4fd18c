# SPDX-License-Identifier: Apache-2.0
"""Reserve aggregates for requests that ask for their traits."""

from dataclasses import dataclass
from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.host_table import AggregateIndex
from kilonova.scheduler.resources import flavor_traits, image_traits

_PREFIX = "trait:"


@dataclass(frozen=True, slots=True)
class IsolateAggregates:
    """Forbid every aggregate with metadata ``trait:X=required`` unless flavor or image require X.

    Source: spec SCHEDULER §6 #5.
    """

    name: ClassVar[str] = "isolate_aggregates"
    reason: ClassVar[str] = "reserved for requests that require its traits"

    def apply(self, spec: RequestSpec, aggregates: AggregateIndex) -> RequestSpec:
        have = flavor_traits(spec.flavor)[0] | image_traits(spec.image)
        closed = frozenset(
            aggregate.uuid
            for aggregate in aggregates.aggregates
            if any(
                key.startswith(_PREFIX) and value == "required" and key.removeprefix(_PREFIX) not in have
                for key, value in aggregate.metadata.items()
            )
        )
        if not closed:
            return spec
        return spec.with_query(forbidden_aggregates=spec.query.forbidden_aggregates | closed)
