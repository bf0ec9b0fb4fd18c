# SPDX-License-Identifier: Apache-2.0
"""AggregateMultiTenancyIsolation: reserves aggregates for the projects in their metadata."""

from typing import ClassVar

from kilonova.model.aggregate import Aggregate
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_rules import in_any, split
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import Keys, Reads
from kilonova.scheduler.request_filters.require_tenant_aggregate import TENANT_PREFIX


@dataclass(frozen=True, slots=True)
class AggregateMultiTenancyIsolation:
    """Keep hosts whose aggregates have no ``filter_tenant_id…`` key, or list the request's project under such a key.

    The filter does not confine a project to the aggregates that list it.

    Shapes: one test per aggregate (A,), combined by OR for each host → (H,) bool.
    Source: spec SCHEDULER §3 #12.
    """

    run_once: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.SHARED
    reads: ClassVar[Reads] = Reads(metadata=Keys(prefixes=(TENANT_PREFIX,)))
    reason: str = "reserved for other projects"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        tenants: tuple[frozenset[str], ...] = hosts.memo.get(
            AggregateMultiTenancyIsolation, lambda: tuple(_tenants(each) for each in hosts.aggregates.aggregates)
        )
        named = in_any(hosts, [bool(each) for each in tenants])
        welcome = in_any(hosts, [spec.project_id in each for each in tenants])
        return ~named | welcome


def _tenants(aggregate: Aggregate) -> frozenset[str]:
    return frozenset(
        tenant for key, value in aggregate.metadata.items() if key.startswith(TENANT_PREFIX) for tenant in split(value)
    )
