# SPDX-License-Identifier: Apache-2.0
"""Selection of the request filters by options, and their order."""

import pytest

from kilonova.scheduler.request_filters import configured_request_filters
from kilonova.scheduler.settings import SchedulerConfig

NAMES = [
    "require_tenant_aggregate",
    "map_az_to_placement_aggregate",
    "require_image_type_support",
    "compute_status_filter",
    "isolate_aggregates",
    "transform_image_metadata",
    "accelerators_filter",
    "packed_virtqueue_filter",
    "routed_networks_filter",
    "remote_managed_ports_filter",
    "ephemeral_encryption_filter",
    "virtio_sound_filter",
    "tpm_secret_security_filter",
    "owner_nova_filter",
]
SWITCHES = {
    "require_tenant_aggregate": "limit_tenants_to_placement_aggregate",
    "require_image_type_support": "query_placement_for_image_type_support",
    "isolate_aggregates": "enable_isolated_aggregate_filtering",
    "transform_image_metadata": "image_metadata_prefilter",
    "routed_networks_filter": "query_placement_for_routed_network_aggregates",
}


def names(config: SchedulerConfig) -> list[str]:
    return [each.name for each in configured_request_filters(config)]


def test_nine_request_filters_always_run() -> None:
    assert names(SchedulerConfig()) == [name for name in NAMES if name not in SWITCHES]


@pytest.mark.parametrize("name", SWITCHES)
def test_the_others_have_a_switch_each(name: str) -> None:
    config = SchedulerConfig(**{SWITCHES[name]: True})  # type: ignore[arg-type]
    assert set(names(config)) - set(names(SchedulerConfig())) == {name}


def test_all_run_in_order() -> None:
    assert names(SchedulerConfig(**dict.fromkeys(SWITCHES.values(), True))) == NAMES  # type: ignore[arg-type]
