# SPDX-License-Identifier: Apache-2.0
from tests.unit.scheduler.filters.capacity import HIGH, LARGEST, LOW, UNREADABLE, one_more, passes
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.scheduler.filters import AggregateCoreFilter

RULE = AggregateCoreFilter()


def test_without_a_ratio_of_an_aggregate_that_of_the_inventory_applies() -> None:
    for metadata in ((), ({},)):
        assert passes(RULE, *metadata, **LARGEST)
        assert not passes(RULE, *metadata, **one_more(LARGEST, "vcpus"))


def test_the_smallest_ratio_of_the_aggregates_applies() -> None:
    assert passes(RULE, LOW, HIGH, vcpus=4)
    assert not passes(RULE, LOW, HIGH, vcpus=5)


def test_an_unreadable_ratio_makes_the_host_fall_back_to_its_inventory() -> None:
    assert passes(RULE, LOW, UNREADABLE, vcpus=5)


def test_a_host_that_reports_no_cores_passes() -> None:
    assert RULE.passes(table(host(inventories=())), request()).tolist() == [True]
