# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.scheduler.filters import SimpleCIDRAffinityFilter


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        ({}, [True, True, True]),
        ({"cidr": ("/8",)}, [True, True, True]),
        ({"build_near_host_ip": ("10.0.0.9",)}, [True, False, False]),
        ({"build_near_host_ip": ("10.0.0.9",), "cidr": ("/16",)}, [True, True, False]),
        ({"build_near_host_ip": ("10.0.0.",), "cidr": ("1/24",)}, [True, False, False]),
        ({"build_near_host_ip": ("10.0.0.9",), "cidr": ("8",)}, [False, False, False]),
        ({"build_near_host_ip": ("10.0.0.9",), "cidr": ("/ffff::",)}, [False, False, False]),
        ({"build_near_host_ip": ("10.0.0.9",), "cidr": ("/::",)}, [False, False, False]),
        ({"build_near_host_ip": ("10.0.0.9",), "cidr": ("/abc",)}, [False, False, False]),
        ({"build_near_host_ip": ("10.0.0.9",), "cidr": ("/99",)}, [False, False, False]),
        ({"build_near_host_ip": ("nowhere",)}, [False, False, False]),
    ],
)
def test_hosts_must_be_in_the_network_of_the_address(hints: dict[str, tuple[str, ...]], expected: list[bool]) -> None:
    hosts = table(host("a", host_ip="10.0.0.1"), host("b", host_ip="10.0.1.1"), host("c", host_ip="no address"))
    assert SimpleCIDRAffinityFilter().passes(hosts, request(hints=hints)).tolist() == expected


@pytest.mark.parametrize(
    ("mask", "expected"),
    [("/ffff:ffff::", [True, True, False]), ("/32", [True, True, False]), ("/ffff:0:ffff::", [False] * 3)],
)
def test_an_ipv6_network_may_have_a_mask_without_gaps(mask: str, expected: list[bool]) -> None:
    hosts = table(host("a", host_ip="fd00:1::1"), host("b", host_ip="fd00:1:2::1"), host("c", host_ip="fd00:2::1"))
    hints = {"build_near_host_ip": ("fd00:1::9",), "cidr": (mask,)}
    assert SimpleCIDRAffinityFilter().passes(hosts, request(hints=hints)).tolist() == expected
