# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.small_cloud import request

from kilonova.errors import RequestFilterFailed
from kilonova.model.aggregate import Aggregate
from kilonova.scheduler.host_table import AggregateIndex
from kilonova.scheduler.request_filters import (
    ComputeStatusFilter,
    IsolateAggregates,
    MapAzToPlacementAggregate,
    RequireTenantAggregate,
    configured_request_filters,
)
from kilonova.scheduler.settings import SchedulerConfig


def index(*metadata: dict[str, str]) -> AggregateIndex:
    return AggregateIndex.of([Aggregate(n, f"u{n}", f"a{n}", (), each) for n, each in enumerate(metadata)], [])


TENANTS = index({"filter_tenant_id3": "p"}, {"filter_tenant_id": "p,q"}, {"filter_tenant_id": "q"}, {"x": "p"})


def test_a_project_is_sent_to_the_aggregates_that_name_it() -> None:
    spec = RequireTenantAggregate().apply(request(project_id="p"), TENANTS)
    assert spec.query.member_of == (frozenset({"u0"}),)
    assert RequireTenantAggregate(required=True).apply(request(project_id="q"), TENANTS).query.member_of


def test_a_project_that_no_aggregate_names_goes_anywhere_unless_it_must_be_named() -> None:
    spec = request(project_id="r")
    assert RequireTenantAggregate().apply(spec, TENANTS) == spec
    with pytest.raises(RequestFilterFailed):
        RequireTenantAggregate(required=True).apply(spec, TENANTS)


@pytest.mark.parametrize(("zone", "expected"), [(None, ()), ("", ()), ("nova", ()), ("z", (frozenset({"u0", "u2"}),))])
def test_a_zone_is_asked_for_as_its_aggregates(zone: str | None, expected: tuple[frozenset[str], ...]) -> None:
    zones = index({"availability_zone": "z"}, {"availability_zone": "y"}, {"availability_zone": "z"}, {})
    spec = MapAzToPlacementAggregate().apply(request(availability_zone=zone), zones)
    assert spec.query.member_of == expected


def test_conditions_are_added_to_those_already_there() -> None:
    spec = request(availability_zone="z").with_query(member_of=(frozenset({"u9"}),), forbidden=frozenset({"X"}))
    spec = MapAzToPlacementAggregate().apply(spec, index({"availability_zone": "z"}))
    spec = ComputeStatusFilter().apply(spec, index())
    assert spec.query.member_of == (frozenset({"u9"}), frozenset({"u0"}))
    assert spec.query.forbidden == {"X"}
    assert spec.query.root_forbidden == {"COMPUTE_STATUS_DISABLED"}


@pytest.mark.parametrize(
    ("extra_specs", "properties", "expected"),
    [
        ({}, {}, {"u0", "u1"}),
        ({"trait:CUSTOM_A": "required"}, {}, {"u1"}),
        ({"trait2:CUSTOM_A": "required"}, {"trait:CUSTOM_B": "required"}, set()),
        ({"trait:CUSTOM_A": "forbidden"}, {}, {"u0", "u1"}),
    ],
)
def test_reserved_aggregates_are_closed_to_requests_without_their_traits(
    extra_specs: dict[str, str], properties: dict[str, str], expected: set[str]
) -> None:
    reserved = index(
        {"trait:CUSTOM_A": "required"},
        {"trait:CUSTOM_A": "required", "trait:CUSTOM_B": "required"},
        {"trait:CUSTOM_C": "forbidden"},
    )
    spec = IsolateAggregates().apply(request(extra_specs, properties), reserved)
    assert spec.query.forbidden_aggregates == expected


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
