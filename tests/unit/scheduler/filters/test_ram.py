# SPDX-License-Identifier: Apache-2.0
from tests.unit.scheduler.filters.capacity import LARGEST, LOW, one_more, passes
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.scheduler.filters import RamFilter


def test_all_memory_under_the_ratio_of_the_inventory_may_be_used() -> None:
    assert passes(RamFilter(), **LARGEST)
    assert not passes(RamFilter(), **one_more(LARGEST, "memory_mib"))


def test_the_ratio_of_an_aggregate_is_ignored() -> None:
    assert passes(RamFilter(), LOW, memory_mib=2_561)


def test_a_host_that_reports_no_memory_fails() -> None:
    assert RamFilter().passes(table(host(inventories=())), request()).tolist() == [False]
