# SPDX-License-Identifier: Apache-2.0
"""Filters that look at the host alone, or at the host and the request's hints."""

import pytest
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.model.image import Image
from kilonova.scheduler.filters import (
    AllHostsFilter,
    ComputeFilter,
    DifferentHostFilter,
    IoOpsFilter,
    IsolatedHostsFilter,
    NumInstancesFilter,
    SameHostFilter,
    SimpleCIDRAffinityFilter,
)
from kilonova.scheduler.settings import SchedulerConfig


def test_all_hosts_pass_all_hosts() -> None:
    assert AllHostsFilter().passes(table(host("a"), host("b")), request()).tolist() == [True, True]


def test_a_compute_service_must_be_enabled_and_heard_of() -> None:
    hosts = table(
        host("fresh", last_seen=1000.0),
        host("at the limit", last_seen=940.0),
        host("silent", last_seen=939.9),
        host("from the future", last_seen=1061.0),
        host("disabled", last_seen=1000.0, disabled=True),
        host("forced down", last_seen=1000.0, forced_down=True),
        taken_at=1000.0,
    )
    rule = ComputeFilter.configured(SchedulerConfig(service_down_time=60))
    assert rule.passes(hosts, request()).tolist() == [True, True, False, False, False, False]


@pytest.mark.parametrize(("limit", "expected"), [(0, False), (3, False), (4, True)])
def test_load_must_be_below_the_limit(limit: int, expected: bool) -> None:
    config = SchedulerConfig(max_io_ops_per_host=limit, max_instances_per_host=limit)
    hosts = table(host(num_io_ops=3, num_instances=3))
    assert IoOpsFilter.configured(config).passes(hosts, request()).tolist() == [expected]
    assert NumInstancesFilter.configured(config).passes(hosts, request()).tolist() == [expected]


@pytest.mark.parametrize(
    ("hint", "different", "same"),
    [
        ((), [True, True], [True, True]),
        (("i1",), [False, True], [True, False]),
        (("i1", "i2"), [False, False], [True, True]),
        (("unknown",), [True, True], [False, False]),
        (("unknown", "i2"), [True, False], [False, True]),
    ],
)
def test_hosts_of_given_instances_are_shunned_or_sought(
    hint: tuple[str, ...], different: list[bool], same: list[bool]
) -> None:
    hosts = table(host("a", instances=("i1",)), host("b", instances=("i2",)))
    assert DifferentHostFilter().passes(hosts, request(hints={"different_host": hint})).tolist() == different
    assert SameHostFilter().passes(hosts, request(hints={"same_host": hint})).tolist() == same


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        ({}, [True, True, True]),
        ({"cidr": ("/8",)}, [True, True, True]),
        ({"build_near_host_ip": ("10.0.0.9",)}, [True, False, False]),
        ({"build_near_host_ip": ("10.0.0.9",), "cidr": ("/16",)}, [True, True, False]),
        ({"build_near_host_ip": ("10.0.0.9",), "cidr": ("8",)}, [True, True, False]),
        ({"build_near_host_ip": ("10.0.0.9",), "cidr": ("/99",)}, [False, False, False]),
        ({"build_near_host_ip": ("nowhere",)}, [False, False, False]),
    ],
)
def test_hosts_must_be_near_the_address(hints: dict[str, tuple[str, ...]], expected: list[bool]) -> None:
    hosts = table(host("a", host_ip="10.0.0.1"), host("b", host_ip="10.0.1.1"), host("c", host_ip="no address"))
    assert SimpleCIDRAffinityFilter().passes(hosts, request(hints=hints)).tolist() == expected


@pytest.mark.parametrize(
    ("images", "restrict", "image", "expected"),
    [
        ((), True, "plain", [False, True]),
        ((), False, "plain", [True, True]),
        (("secret",), True, "secret", [True, False]),
        (("secret",), True, "plain", [False, True]),
        (("secret",), True, None, [False, True]),
        (("secret",), False, "secret", [True, False]),
        (("secret",), False, "plain", [True, True]),
    ],
)
def test_isolated_images_go_to_isolated_hosts(
    images: tuple[str, ...], restrict: bool, image: str | None, expected: list[bool]
) -> None:
    rule = IsolatedHostsFilter.configured(
        SchedulerConfig(
            isolated_images=images,
            isolated_hosts=("vault", "not there"),
            restrict_isolated_hosts_to_isolated_images=restrict,
        )
    )
    spec = request(image=None if image is None else Image(image))
    assert rule.passes(table(host("vault"), host("open")), spec).tolist() == expected
