# SPDX-License-Identifier: Apache-2.0
"""ComputeStatusFilter: hosts whose compute service is not disabled."""

from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.reads import NOTHING, Reads

DISABLED_TRAIT = "COMPUTE_STATUS_DISABLED"


@dataclass(frozen=True, slots=True)
class ComputeStatusFilter:
    """Forbid the trait that marks hosts with a disabled compute service. Source: spec SCHEDULER §6 #4."""

    name: ClassVar[str] = "compute_status_filter"
    reason: ClassVar[str] = "compute service disabled"
    reads: ClassVar[Reads] = NOTHING

    def apply(self, spec: RequestSpec, aggregates: AggregateIndex) -> RequestSpec:  # noqa: ARG002
        return spec.with_query(root_forbidden=spec.query.root_forbidden | {DISABLED_TRAIT})
