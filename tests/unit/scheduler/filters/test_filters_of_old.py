# SPDX-License-Identifier: Apache-2.0
"""Zones, hosts tried before, one flavor a host, metrics."""

import pytest
from tests.unit.scheduler.small_cloud import aggregate, flavor, host, request, table

from kilonova.scheduler.filters import AvailabilityZoneFilter, MetricsFilter, RetryFilter, TypeAffinityFilter
from kilonova.scheduler.guests import guest_kind
from kilonova.scheduler.settings import SchedulerConfig

ZONES = table(
    *(host(name) for name in ("a", "b", "both", "none")),
    aggregates=(
        aggregate(1, ("a", "both"), availability_zone="az1"),
        aggregate(2, ("b", "both"), availability_zone="az2"),
        aggregate(3, ("a", "none"), ssd="true"),
    ),
)


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        (None, ["a", "b", "both", "none"]),
        ("az1", ["a", "both"]),
        ("az2", ["b", "both"]),
        ("nova", ["none"]),
        ("other", []),
    ],
)
def test_a_host_without_zone_is_in_the_default_zone(zone: str | None, expected: list[str]) -> None:
    passed = AvailabilityZoneFilter().passes(ZONES, request(availability_zone=zone))
    assert [name for name, passes in zip(ZONES.hosts, passed, strict=True) if passes] == expected


def test_the_default_zone_may_have_another_name() -> None:
    rule = AvailabilityZoneFilter.configured(SchedulerConfig(default_availability_zone="home"))
    assert rule.passes(ZONES, request(availability_zone="home")).tolist() == [False, False, False, True]
    assert not rule.passes(ZONES, request(availability_zone="nova")).any()


def test_tried_hypervisors_are_left_out_and_no_others() -> None:
    hosts = table(host("a", node="a1"), host("a", node="a2"), host("b"))
    tried = (("a", "a2"), ("b", "elsewhere"), ("gone", "gone"))
    assert RetryFilter().passes(hosts, request(tried=tried)).tolist() == [True, False, True]
    assert RetryFilter().passes(hosts, request()).tolist() == [True, True, True]


def test_a_host_holds_one_flavor_at_most() -> None:
    hosts = table(
        host("empty"),
        host("mine", guests=(guest_kind("1", {}), guest_kind("1", {"os_distro": "a"}))),
        host("other", guests=(guest_kind("2", {}),)),
        host("mixed", guests=(guest_kind("1", {}), guest_kind("2", {}))),
    )
    assert TypeAffinityFilter().passes(hosts, request(flavor=flavor())).tolist() == [True, True, False, False]
    renamed = request(flavor=flavor(name="renamed"))
    assert TypeAffinityFilter().passes(hosts, renamed).tolist() == [True, True, False, False], "the id counts"


def test_every_metric_of_the_setting_must_be_there() -> None:
    hosts = table(host("all", metrics={"cpu": 0.0, "power": 5.0}), host("one", metrics={"cpu": 1.0}), host("none"))
    for setting, expected in (
        ((), [True, True, True]),
        (("cpu=1.0",), [True, True, False]),
        (("cpu=1.0", "power=0"), [True, False, False]),
        (("cpu=1.0", "power"), [True, True, False]),
        (("nobody=1.0",), [False, False, False]),
    ):
        rule = MetricsFilter.configured(SchedulerConfig(metrics_weight_setting=setting))
        assert rule.passes(hosts, request()).tolist() == expected
