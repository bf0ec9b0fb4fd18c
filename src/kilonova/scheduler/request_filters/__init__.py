# SPDX-License-Identifier: Apache-2.0
"""Request filters: they turn what Nova knows of a request into conditions that Placement understands.

In: a request and the aggregates. Out: the request with conditions added to its query.
They run once a request, before any host is looked at, and not for rebuilds.
"""

from kilonova.scheduler.request_filters.compute_status_filter import DISABLED_TRAIT, ComputeStatusFilter
from kilonova.scheduler.request_filters.isolate_aggregates import IsolateAggregates
from kilonova.scheduler.request_filters.map_az_to_placement_aggregate import MapAzToPlacementAggregate
from kilonova.scheduler.request_filters.require_tenant_aggregate import RequireTenantAggregate
from kilonova.scheduler.rule import RequestFilter
from kilonova.scheduler.settings import SchedulerConfig

__all__ = [
    "DISABLED_TRAIT",
    "ComputeStatusFilter",
    "IsolateAggregates",
    "MapAzToPlacementAggregate",
    "RequireTenantAggregate",
    "configured_request_filters",
]


def configured_request_filters(config: SchedulerConfig) -> tuple[RequestFilter, ...]:
    """Return the request filters that ``config`` switches on, in the order in which they run."""
    chosen: list[RequestFilter] = []
    if config.limit_tenants_to_placement_aggregate:
        chosen.append(RequireTenantAggregate(required=config.placement_aggregate_required_for_tenants))
    chosen += [MapAzToPlacementAggregate(), ComputeStatusFilter()]
    if config.enable_isolated_aggregate_filtering:
        chosen.append(IsolateAggregates())
    return tuple(chosen)
