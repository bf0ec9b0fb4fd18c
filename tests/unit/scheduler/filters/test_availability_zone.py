# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.small_cloud import aggregate, host, request, table

from kilonova.scheduler.filters import AvailabilityZoneFilter
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
