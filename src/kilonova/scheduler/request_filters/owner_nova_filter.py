# SPDX-License-Identifier: Apache-2.0
"""OwnerNovaFilter: resource providers of compute nodes, not those of other services."""

from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.reads import NOTHING, Reads


@dataclass(frozen=True, slots=True)
class OwnerNovaFilter:
    """Require the trait OWNER_NOVA, which the root provider of every compute node has.

    Source: spec SCHEDULER §6 #14.
    """

    name: ClassVar[str] = "owner_nova_filter"
    reason: ClassVar[str] = "belongs to another service"
    reads: ClassVar[Reads] = NOTHING

    def apply(self, spec: RequestSpec, aggregates: AggregateIndex) -> RequestSpec:  # noqa: ARG002
        return spec.requiring("OWNER_NOVA")
