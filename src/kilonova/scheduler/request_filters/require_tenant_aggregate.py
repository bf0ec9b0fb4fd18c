# SPDX-License-Identifier: Apache-2.0
"""RequireTenantAggregate: confines a project to the aggregates that name it."""

from typing import ClassVar

from kilonova.errors import RequestFilterFailed
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.reads import Keys, Reads

TENANT_PREFIX = "filter_tenant_id"


@dataclass(frozen=True, slots=True)
class RequireTenantAggregate:
    """Require an aggregate in which a key that starts with ``filter_tenant_id`` has the project id as its value.

    Values are not split at commas, unlike in AggregateMultiTenancyIsolation.
    ``required``: if True, refuse a project that no aggregate names; if False, such a project may use all hosts.

    Raises: RequestFilterFailed.
    Source: spec SCHEDULER §6 #1.
    """

    required: bool = False
    name: ClassVar[str] = "require_tenant_aggregate"
    reason: ClassVar[str] = "not in an aggregate of the project"
    reads: ClassVar[Reads] = Reads(metadata=Keys(prefixes=(TENANT_PREFIX,)))

    def apply(self, spec: RequestSpec, aggregates: AggregateIndex) -> RequestSpec:
        wanted = frozenset(
            aggregate.uuid
            for aggregate in aggregates.aggregates
            if any(
                value == spec.project_id and key.startswith(TENANT_PREFIX) for key, value in aggregate.metadata.items()
            )
        )
        if wanted:
            return spec.with_query(member_of=(*spec.query.member_of, wanted))
        if self.required:
            raise RequestFilterFailed("No aggregate lists the project, and the project may use no other hosts.")
        return spec
