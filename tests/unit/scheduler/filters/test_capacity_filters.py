# SPDX-License-Identifier: Apache-2.0
"""Filters of old that ask again what Placement asks: enough cores, memory and disk, or exactly that much."""

from typing import Any

import pytest
from tests.unit.scheduler.small_cloud import flavor, one_host_in, request, table
from tests.unit.scheduler.small_cloud import host as host_with

from kilonova.model.provider import Inventory
from kilonova.scheduler import filters

INVENTORIES = (
    Inventory("VCPU", 8, allocation_ratio=2.0),
    Inventory("MEMORY_MB", 8_192, reserved=512, allocation_ratio=1.5),
    Inventory("DISK_GB", 100, reserved=10),
)
USED = {"VCPU": 4, "MEMORY_MB": 1_024, "DISK_GB": 40}
FITS: dict[str, Any] = {"vcpus": 12, "memory_mib": 10_752, "root_gib": 49, "swap_mib": 1024}
HALF = {"cpu_allocation_ratio": "1.0", "ram_allocation_ratio": "0.5", "disk_allocation_ratio": "0.75"}


def passes(rule: Any, *metadata: dict[str, str], **asked: Any) -> bool:
    hosts = one_host_in(*metadata, inventories=INVENTORIES, used=USED)
    (answer,) = rule.passes(hosts, request(flavor=flavor(**asked))).tolist()
    return bool(answer)


@pytest.mark.parametrize(
    ("rule", "dimension"),
    [
        (filters.CoreFilter(), "vcpus"),
        (filters.RamFilter(), "memory_mib"),
        (filters.DiskFilter(), "swap_mib"),
        (filters.AggregateCoreFilter(), "vcpus"),
        (filters.AggregateRamFilter(), "memory_mib"),
        (filters.AggregateDiskFilter(), "swap_mib"),
    ],
)
def test_what_is_left_under_the_ratio_of_the_inventory_may_be_used_up(rule: Any, dimension: str) -> None:
    assert passes(rule, **FITS)
    assert not passes(rule, **{**FITS, dimension: FITS[dimension] + 1})


@pytest.mark.parametrize(
    ("rule", "most"),
    [
        (filters.AggregateCoreFilter(), {"vcpus": 4}),
        (filters.AggregateRamFilter(), {"memory_mib": 2_560}),
        (filters.AggregateDiskFilter(), {"root_gib": 0, "ephemeral_gib": 25}),
    ],
)
def test_the_smallest_ratio_of_the_aggregates_counts(rule: Any, most: dict[str, int]) -> None:
    more = {name: amount + 1 if amount else 0 for name, amount in most.items()}
    large = dict.fromkeys(HALF, "16")
    assert passes(rule, HALF, large, **most)
    assert not passes(rule, HALF, large, **more)
    assert passes(rule, HALF, dict.fromkeys(HALF, "many"), **more), "one bad value: the inventory's own ratio"
    assert passes(rule, {}, **more)
    plain = getattr(filters, type(rule).__name__.removeprefix("Aggregate"))()
    assert passes(plain, HALF, **more), "which only the filters for aggregates look at"


def test_a_host_that_reports_no_cores_passes() -> None:
    hosts = table(host_with(inventories=()))
    for rule in (filters.CoreFilter(), filters.AggregateCoreFilter()):
        assert rule.passes(hosts, request()).tolist() == [True]
    for other in (filters.RamFilter(), filters.AggregateRamFilter(), filters.DiskFilter()):
        assert other.passes(hosts, request()).tolist() == [False]


@pytest.mark.parametrize(
    ("rule", "exact"),
    [
        (filters.ExactCoreFilter(), {"vcpus": 4}),
        (filters.ExactRamFilter(), {"memory_mib": 6_656}),
        (filters.ExactDiskFilter(), {"root_gib": 30, "ephemeral_gib": 19, "swap_mib": 1024}),
    ],
)
def test_nothing_may_be_left_over(rule: Any, exact: dict[str, int]) -> None:
    assert passes(rule, **exact)
    for name, amount in exact.items():
        assert not passes(rule, **{**exact, name: amount - 1})
        assert not passes(rule, **{**exact, name: amount + 1})
