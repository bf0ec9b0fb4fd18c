# SPDX-License-Identifier: Apache-2.0
"""The six aggregate filters and the vectors that were executed against Nova's classes."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.scheduler.small_cloud import aggregate, flavor, host, one_host_in, request, table

from kilonova.scheduler.filters import (
    AggregateImagePropertiesIsolation,
    AggregateInstanceExtraSpecsFilter,
    AggregateIoOpsFilter,
    AggregateMultiTenancyIsolation,
    AggregateNumInstancesFilter,
    AggregateTypeAffinityFilter,
)
from kilonova.scheduler.settings import SchedulerConfig

A = "aggregate_instance_extra_specs:"
Metadata = Mapping[str, str]


@pytest.mark.parametrize(
    ("extra_specs", "aggregates", "expected"),
    [
        ({}, [], True),
        ({f"{A}ssd": "true"}, [{"ssd": "true"}], True),
        ({f"{A}ssd": "true"}, [{}], False),
        ({f"{A}ssd": "true"}, [], False),
        ({"ssd": "true"}, [{"ssd": "true"}], True),
        ({"ssd": "true"}, [{"x": "y"}], False),
        ({"hw:cpu_policy": "dedicated"}, [{"ssd": "true"}], True),
        ({"k": "b"}, [{"k": "a,b"}], True),
        ({"k": "<or> b <or> c"}, [{"k": "a"}, {"k": "b"}], True),
        ({"k": "<all-in> a b"}, [{"k": "a,b"}], False),
        ({"k": "<all-in> a b"}, [{"k": "a b"}], True),
        ({"n": ">= 8"}, [{"n": "5"}, {"n": "9"}], True),
        ({f"{A}a:b": "1"}, [{"a:b": "1"}], True),
        ({"k": "True"}, [{"k": "true"}], False),
        ({"k": ""}, [{"k": ""}], True),
        ({"a": "1", "b": "2"}, [{"a": "1"}], False),
        ({"a": "1", "b": "2"}, [{"a": "1"}, {"b": "2"}], True),
    ],
)
def test_extra_specs_must_be_met_by_some_aggregate(
    extra_specs: Metadata, aggregates: list[Metadata], expected: bool
) -> None:
    hosts = one_host_in(*aggregates)
    rule = AggregateInstanceExtraSpecsFilter()
    assert rule.passes(hosts, request(extra_specs)).tolist() == [expected]
    assert rule.passes(hosts, request(extra_specs)).tolist() == [expected], "and again, from the memo"


@pytest.mark.parametrize(
    ("properties", "aggregates", "expected"),
    [
        (None, [{"os_distro": "ubuntu"}], True),
        ({}, [{"os_distro": "ubuntu"}], True),
        ({"os_distro": "ubuntu"}, [{"os_distro": "ubuntu"}], True),
        ({"os_distro": "rhel"}, [{"os_distro": "ubuntu"}], False),
        ({"os_distro": "rhel"}, [{"os_distro": "ubuntu,rhel"}], True),
        ({"os_distro": "rhel"}, [{"os_distro": "ubuntu"}, {"os_distro": "rhel"}], True),
        ({"os_distro": "rhel"}, [], True),
        ({"hw_cpu_cores": 4}, [{"hw_cpu_cores": "4"}], True),
        ({"f": False}, [{"f": "True"}], True),
        ({"f": True}, [{"f": "False"}], False),
        ({"trove": "true"}, [{"trove": "false"}], False),
        ({"architecture": "x86_64"}, [{"hw_architecture": "aarch64"}], False),
    ],
)
def test_image_properties_must_not_contradict_the_aggregates(
    properties: Mapping[str, Any] | None, aggregates: list[Metadata], expected: bool
) -> None:
    rule = AggregateImagePropertiesIsolation()
    assert rule.passes(one_host_in(*aggregates), request(properties=properties)).tolist() == [expected]


def test_a_namespace_limits_the_keys_and_the_whole_key_is_asked_for() -> None:
    rule = AggregateImagePropertiesIsolation.configured(
        SchedulerConfig(
            aggregate_image_properties_isolation_namespace="iso",
            aggregate_image_properties_isolation_separator="_",
        )
    )
    hosts = one_host_in({"os_distro": "windows", "iso_tier": "gold"})
    assert rule.passes(hosts, request(properties={"os_distro": "linux"})).tolist() == [True]
    assert rule.passes(hosts, request(properties={"iso_tier": "lead"})).tolist() == [False]
    assert rule.passes(hosts, request(properties={"tier": "lead"})).tolist() == [True]


@pytest.mark.parametrize(
    ("name", "aggregates", "expected"),
    [
        ("m1", [{}], True),
        ("m1", [{"instance_type": "m1"}], True),
        ("m2", [{"instance_type": "m1, m2"}], True),
        ("m3", [{"instance_type": "m1"}, {"instance_type": "m3"}], True),
        ("m2", [{"instance_type": "m1"}], False),
        ("m2", [{"instance_type": "m1"}, {}], False),
        ("m2", [], True),
    ],
)
def test_the_flavor_must_be_listed_where_flavors_are_listed(
    name: str, aggregates: list[Metadata], expected: bool
) -> None:
    passed = AggregateTypeAffinityFilter().passes(one_host_in(*aggregates), request(flavor=flavor(name=name)))
    assert passed.tolist() == [expected]


@pytest.mark.parametrize(
    ("aggregates", "expected"),
    [
        ([], True),
        ([{"x": "y"}], True),
        ([{"filter_tenant_id": "p"}], True),
        ([{"filter_tenant_id": "q"}], False),
        ([{"filter_tenant_id": "q,p"}], True),
        ([{"filter_tenant_id3": "p"}], True),
        ([{"filter_tenant_id": "q"}, {"filter_tenant_id": "p"}], True),
    ],
)
def test_strangers_are_kept_out_of_tenants_aggregates(aggregates: list[Metadata], expected: bool) -> None:
    passed = AggregateMultiTenancyIsolation().passes(one_host_in(*aggregates), request(project_id="p"))
    assert passed.tolist() == [expected]


@pytest.mark.parametrize(
    ("aggregates", "limit"),
    [
        ([], 5),
        ([{"x": "y"}], 5),
        ([{"LIMIT": "3"}], 3),
        ([{"LIMIT": "9"}, {"LIMIT": "7"}], 7),
        ([{"LIMIT": "2"}, {"LIMIT": "many"}], 5),
        ([{"LIMIT": "2,3"}], 5),
        ([{"LIMIT": "99999999999999999999999"}], 2**63 - 1),
    ],
)
def test_the_smallest_limit_of_the_aggregates_counts(aggregates: list[Metadata], limit: int) -> None:
    config = SchedulerConfig(max_io_ops_per_host=5, max_instances_per_host=5)
    for rule, key, column in (
        (AggregateIoOpsFilter.configured(config), "max_io_ops_per_host", "num_io_ops"),
        (AggregateNumInstancesFilter.configured(config), "max_instances_per_host", "num_instances"),
    ):
        named = [{name.replace("LIMIT", key): value for name, value in each.items()} for each in aggregates]
        assert rule.passes(one_host_in(*named, **{column: limit - 1}), request()).tolist() == [True]
        assert rule.passes(one_host_in(*named, **{column: limit}), request()).tolist() == [False]


def test_aggregates_without_hosts_set_no_limit() -> None:
    hosts = table(host(num_instances=49), aggregates=(aggregate(1, ("gone",), max_instances_per_host="1"),))
    assert AggregateNumInstancesFilter().passes(hosts, request()).tolist() == [True]
