# SPDX-License-Identifier: Apache-2.0
"""Request filters: they convert parts of a request into conditions of its Placement query.

In: a request and the aggregates. Out: the request with conditions added to its query.
Request filters run once per request, before any host is judged. They do not run for rebuilds.
"""

from collections.abc import Mapping

from kilonova.scheduler.request_filters.accelerators_filter import AcceleratorsFilter
from kilonova.scheduler.request_filters.compute_status_filter import DISABLED_TRAIT, ComputeStatusFilter
from kilonova.scheduler.request_filters.ephemeral_encryption_filter import EphemeralEncryptionFilter
from kilonova.scheduler.request_filters.isolate_aggregates import IsolateAggregates
from kilonova.scheduler.request_filters.map_az_to_placement_aggregate import MapAzToPlacementAggregate
from kilonova.scheduler.request_filters.owner_nova_filter import OwnerNovaFilter
from kilonova.scheduler.request_filters.packed_virtqueue_filter import PackedVirtqueueFilter
from kilonova.scheduler.request_filters.remote_managed_ports_filter import RemoteManagedPortsFilter
from kilonova.scheduler.request_filters.require_image_type_support import RequireImageTypeSupport
from kilonova.scheduler.request_filters.require_tenant_aggregate import RequireTenantAggregate
from kilonova.scheduler.request_filters.routed_networks_filter import RoutedNetworksFilter
from kilonova.scheduler.request_filters.tpm_secret_security_filter import TpmSecretSecurityFilter
from kilonova.scheduler.request_filters.transform_image_metadata import TransformImageMetadata
from kilonova.scheduler.request_filters.virtio_sound_filter import VirtioSoundFilter
from kilonova.scheduler.rule import RequestFilter
from kilonova.scheduler.settings import SchedulerConfig

__all__ = [
    "DISABLED_TRAIT",
    "SWITCHES",
    "AcceleratorsFilter",
    "ComputeStatusFilter",
    "EphemeralEncryptionFilter",
    "IsolateAggregates",
    "MapAzToPlacementAggregate",
    "OwnerNovaFilter",
    "PackedVirtqueueFilter",
    "RemoteManagedPortsFilter",
    "RequireImageTypeSupport",
    "RequireTenantAggregate",
    "RoutedNetworksFilter",
    "TpmSecretSecurityFilter",
    "TransformImageMetadata",
    "VirtioSoundFilter",
    "configured_request_filters",
]

SWITCHES: Mapping[str, str] = {
    "require_tenant_aggregate": "limit_tenants_to_placement_aggregate",
    "require_image_type_support": "query_placement_for_image_type_support",
    "isolate_aggregates": "enable_isolated_aggregate_filtering",
    "transform_image_metadata": "image_metadata_prefilter",
    "routed_networks_filter": "query_placement_for_routed_network_aggregates",
}
"""Request filter → the option that enables it. Request filters without an option always run."""


def configured_request_filters(config: SchedulerConfig) -> tuple[RequestFilter, ...]:
    """Return the enabled built-in request filters, in the order in which they run."""
    switched: tuple[tuple[bool, RequestFilter], ...] = (
        (
            config.limit_tenants_to_placement_aggregate,
            RequireTenantAggregate(required=config.placement_aggregate_required_for_tenants),
        ),
        (True, MapAzToPlacementAggregate()),
        (config.query_placement_for_image_type_support, RequireImageTypeSupport()),
        (True, ComputeStatusFilter()),
        (config.enable_isolated_aggregate_filtering, IsolateAggregates()),
        (config.image_metadata_prefilter, TransformImageMetadata()),
        (True, AcceleratorsFilter()),
        (True, PackedVirtqueueFilter()),
        (config.query_placement_for_routed_network_aggregates, RoutedNetworksFilter()),
        (True, RemoteManagedPortsFilter()),
        (True, EphemeralEncryptionFilter()),
        (True, VirtioSoundFilter()),
        (True, TpmSecretSecurityFilter()),
        (True, OwnerNovaFilter()),
    )
    return tuple(request_filter for enabled, request_filter in switched if enabled)
